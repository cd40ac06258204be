import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.admin.ZooKeeperAdmin;
import org.apache.zookeeper.data.Stat;

/** Curator, which reads the configuration node at every connect, and the administrator's client. */
public class Tracker {
    public static void main(String[] arguments) throws Exception {
        String joining = arguments[1];
        CuratorFramework client = CuratorFrameworkFactory.builder()
            .connectString(arguments[0])
            .retryPolicy(new RetryOneTime(100))
            .authorization("digest", "super:test".getBytes())
            .build();
        client.start();
        client.blockUntilConnected(180, TimeUnit.SECONDS);
        knows(client, 3);
        Stat stat = new Stat();
        byte[] text = client.reconfig().joining(joining).storingStatIn(stat).forEnsemble();
        say("joined " + new String(text).contains(joining));
        knows(client, 4);
        text = client.reconfig().leaving("9").fromConfig(stat.getMzxid()).forEnsemble();
        say("left " + !new String(text).contains(joining));
        knows(client, 3);
        client.close();
        ZooKeeperAdmin admin = new ZooKeeperAdmin(arguments[0], 20000, event -> {});
        admin.addAuthInfo("digest", "super:test".getBytes());
        try {
            admin.reconfigure((String) null, "9", null, stat.getMzxid(), null);
        } catch (KeeperException error) {
            say("admin " + error.code());
        }
        admin.close();
        say("closed");
    }

    static void knows(CuratorFramework client, int servers) throws Exception {
        String[] known = {};
        for (int patience = 0; known.length != servers && patience < 400; patience++) {
            known = client.getZookeeperClient().getCurrentConnectionString().split(",");
            Thread.sleep(50);
        }
        Arrays.sort(known);
        say("knows " + Arrays.toString(known));
    }

    static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
