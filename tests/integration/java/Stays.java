import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import org.apache.zookeeper.*;

/** The Java client at a server that stays up while the leader is lost. It tries nothing twice. */
public class Stays {
    static final int COUNT = 300;

    public static void main(String[] arguments) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        List<String> states = new ArrayList<>();
        ZooKeeper zk = new ZooKeeper(arguments[0], 20000, event -> {
            if (event.getType() == Watcher.Event.EventType.None) {
                synchronized (states) { states.add(event.getState().toString()); }
                connected.countDown();
            } else {
                say("event " + event.getType() + " " + event.getPath());
            }
        });
        connected.await();
        zk.create("/e", new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        zk.exists("/e", true);
        say("ready");
        System.in.read();
        ConcurrentLinkedQueue<Integer> versions = new ConcurrentLinkedQueue<>();
        CountDownLatch done = new CountDownLatch(COUNT);
        for (int count = 0; count < COUNT; count++) {
            zk.setData("/e", String.valueOf(count).getBytes(), -1, (code, path, context, stat) -> {
                versions.add(stat == null ? -1 : stat.getVersion());
                done.countDown();
            }, null);
            Thread.sleep(2);
        }
        done.await();
        int expected = 1;
        boolean inOrder = true;
        for (int version : versions) inOrder &= version == expected++;
        say("in order " + inOrder);
        say("still mine " + (zk.exists("/e", false).getEphemeralOwner() == zk.getSessionId()));
        synchronized (states) { say("states " + states); }
        Runtime.getRuntime().halt(0);
    }

    static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
