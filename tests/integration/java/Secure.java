import java.util.concurrent.CountDownLatch;
import org.apache.zookeeper.*;

/** The Java client, whose properties say how it proves who it is. Says what became of it. */
public class Secure {
    public static void main(String[] arguments) throws Exception {
        CountDownLatch settled = new CountDownLatch(1);
        String[] state = {"silence"};
        ZooKeeper zk = new ZooKeeper(arguments[0], 20000, event -> {
            String name = String.valueOf(event.getState());
            boolean proves = System.getProperty("java.security.auth.login.config") != null;
            if (name.equals("AuthFailed") || name.equals(proves ? "SaslAuthenticated" : "SyncConnected")) {
                state[0] = name;
                settled.countDown();
            }
        });
        settled.await(180, java.util.concurrent.TimeUnit.SECONDS);
        System.out.println(state[0]);
        if (!state[0].equals("AuthFailed")) {
            zk.create("/mine", new byte[1000000], ZooDefs.Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
            System.out.println(zk.getData("/mine", false, null).length + " " + zk.getACL("/mine", null));
            zk.whoAmI().forEach(who -> System.out.println(who.getAuthScheme() + " " + who.getUser()));
        }
        zk.close();
    }
}
