import org.apache.zookeeper.*;

/** The Java client that accepts a server without a leader. Says a line after each step; goes on when it reads one. */
public class ReadOnly {
    public static void main(String[] arguments) throws Exception {
        ZooKeeper zk = new ZooKeeper(arguments[0], 20000, event -> {}, true);
        while (!zk.getState().isConnected()) Thread.sleep(20);
        say("state " + zk.getState());
        say("children " + zk.getChildren("/", true));
        try {
            zk.create("/a", null, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        } catch (KeeperException error) {
            say("refused " + error.code());
        }
        System.in.read();
        while (true) {
            try {
                say("created " + zk.create("/a", null, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT));
                break;
            } catch (KeeperException.ConnectionLossException | KeeperException.NotReadOnlyException lost) {
                Thread.sleep(50);
            }
        }
        say("state " + zk.getState());
        zk.close();
        say("closed");
    }

    static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
