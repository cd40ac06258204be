import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.zookeeper.*;
import org.apache.zookeeper.data.Stat;

/** The Java client by itself. Says a line after each step; goes on when it reads one. */
public class Plain {
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
        long session = zk.getSessionId();
        zk.create("/e", new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        zk.create("/w", null, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        zk.addWatch("/w", AddWatchMode.PERSISTENT_RECURSIVE);
        say("null " + (zk.getData("/w", true, null) == null));
        say("ready");
        System.in.read();
        for (int count = 0; ; ) {
            try {
                zk.setData("/e", String.valueOf(count).getBytes(), -1);
                if (++count == 50) break;
            } catch (KeeperException.ConnectionLossException lost) {
                Thread.sleep(50);
            }
        }
        zk.create("/w/c", new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        Stat stat = zk.exists("/e", false);
        say("same " + (zk.getSessionId() == session) + " " + (stat.getEphemeralOwner() == session));
        synchronized (states) { say("expired " + states.contains("Expired")); }
        List<OpResult> results = zk.multi(List.of(Op.check("/w", -1), Op.delete("/w/c", -1), Op.delete("/w", -1)));
        say("multi " + results.size());
        zk.close();
        say("closed");
    }

    static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
