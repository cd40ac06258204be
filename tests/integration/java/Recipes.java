import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Two Curator clients and some recipes. Says a line after each; goes on when it reads one. */
public class Recipes {
    static CuratorFramework client(String hosts) {
        CuratorFramework made = CuratorFrameworkFactory.newClient(hosts, 20000, 20000, new ExponentialBackoffRetry(100, 29, 2000));
        made.start();
        return made;
    }

    public static void main(String[] arguments) throws Exception {
        try (CuratorFramework one = client(arguments[0]); CuratorFramework two = client(arguments[0])) {
            one.blockUntilConnected();
            two.blockUntilConnected();

            InterProcessMutex mine = new InterProcessMutex(one, "/mutex");
            InterProcessMutex yours = new InterProcessMutex(two, "/mutex");
            mine.acquire();
            say("excluded " + !yours.acquire(300, TimeUnit.MILLISECONDS));
            mine.release();
            say("acquired " + yours.acquire(180, TimeUnit.SECONDS));
            yours.release();

            CountDownLatch seen = new CountDownLatch(1);
            CuratorCache cache = CuratorCache.build(one, "/cached");
            cache.listenable().addListener((type, before, after) -> {
                if (after != null && new String(after.getData(), StandardCharsets.UTF_8).equals("second")) seen.countDown();
            });
            cache.start();
            two.create().creatingParentsIfNeeded().forPath("/cached/a", "first".getBytes());
            two.setData().forPath("/cached/a", "second".getBytes());
            say("cached " + seen.await(180, TimeUnit.SECONDS));

            LeaderLatch first = new LeaderLatch(one, "/latch", "one");
            first.start();
            first.await(180, TimeUnit.SECONDS);
            LeaderLatch second = new LeaderLatch(two, "/latch", "two");
            second.start();
            say("leads " + first.hasLeadership() + " " + second.hasLeadership());
            System.in.read();

            DistributedAtomicLong counter = new DistributedAtomicLong(one, "/counter", new ExponentialBackoffRetry(50, 29, 1000));
            for (int count = 0; count < 20; count++) {
                if (!counter.increment().succeeded()) throw new IllegalStateException("not counted");
            }
            say("counted " + counter.get().postValue());
            first.close();
            say("succeeded " + second.await(180, TimeUnit.SECONDS));
            second.close();
            cache.close();
        }
    }

    static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
