import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/** Sessions that come and go, and a crowd of them. */
final class Sessions {
    static final int SESSION_MS = 30_000;
    static final int CONNECT_S = 60;
    static final int AT_ONCE = 120;
    static final int EPHEMERALS = 10;

    private Sessions() {}

    static ZooKeeper connected(String host) throws Exception {
        CountDownLatch up = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper(host, SESSION_MS, event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                up.countDown();
            }
        });
        if (!up.await(CONNECT_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no session at " + host);
        }
        return client;
    }

    interface Step<T> {
        T take(int number) throws Exception;
    }

    /** `count` of them, so many at once, each in a thread of its own. */
    static <T> List<T> each(int count, int atOnce, Step<T> step) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(Math.min(count, atOnce));
        try {
            List<Callable<T>> steps = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                int number = i;
                steps.add(() -> step.take(number));
            }
            List<T> found = new ArrayList<>();
            for (Future<T> each : pool.invokeAll(steps)) {
                found.add(each.get());
            }
            return found;
        } finally {
            pool.shutdown();
        }
    }

    /** The stock client sleeps for 0.1 s when it closes a session, so many are closed at once. */
    static void close(List<ZooKeeper> clients) throws Exception {
        each(clients.size(), AT_ONCE, number -> {
            clients.get(number).close();
            return null;
        });
    }

    /** Sessions come in rounds, and only their coming is timed. */
    static Answer connect(String[] hosts, int operations, int threads) throws Exception {
        Answer answer = new Answer();
        long[] times = new long[operations];
        long nanos = 0;
        for (int first = 0; first < operations; first += AT_ONCE) {
            int offset = first;
            long began = System.nanoTime();
            List<ZooKeeper> round = each(Math.min(AT_ONCE, operations - first), threads, number -> {
                long start = System.nanoTime();
                ZooKeeper client = connected(hosts[(offset + number) % hosts.length]);
                times[offset + number] = System.nanoTime() - start;
                return client;
            });
            nanos += System.nanoTime() - began;
            close(round);
        }
        return answer.took(operations, nanos, times);
    }

    static List<ZooKeeper> crowd(String[] hosts, int count) throws Exception {
        return each(count, AT_ONCE / 2, number -> connected(hosts[number % hosts.length]));
    }

    /** Most sessions only say that they are there; what the active ones ask is measured. */
    static Answer crowded(
            Load load, int idle, int active, int operations, Pump.Issue issue, int outstanding, int patienceS) throws Exception {
        List<ZooKeeper> crowd = crowd(load.hosts, idle + active);
        try {
            List<Pump> pumps = new ArrayList<>();
            for (int i = 0; i < active; i++) {
                pumps.add(new Pump(crowd.get(i), i % load.clients.length, Math.max(1, operations / active), issue));
            }
            return Pump.run(pumps, outstanding, patienceS);
        } finally {
            close(crowd);
        }
    }

    /** Each of `watchers` sessions watches one node, which changes: the time until the last has its event, again and again. */
    static Answer fanOut(Load load, int watchers, int rounds, byte[] data, int patienceS) throws Exception {
        String path = Load.node(0, 0);
        List<ZooKeeper> crowd = crowd(load.hosts, watchers);
        try {
            Answer answer = new Answer();
            long[] times = new long[rounds];
            long nanos = 0;
            for (int round = 0; round < rounds; round++) {
                CountDownLatch set = new CountDownLatch(watchers);
                CountDownLatch heard = new CountDownLatch(watchers);
                AtomicInteger failed = new AtomicInteger();
                for (ZooKeeper client : crowd) {
                    client.getData(path, event -> {
                        if (event.getType() == EventType.NodeDataChanged) {
                            heard.countDown();
                        }
                    }, (rc, p, x, found, stat) -> {
                        failed.addAndGet(rc == Code.OK.intValue() ? 0 : 1);
                        set.countDown();
                    }, null);
                }
                await(set, patienceS, "watches set");
                if (failed.get() > 0) {
                    throw new IllegalStateException(failed + " watches were not set");
                }
                long began = System.nanoTime();
                load.clients[0].setData(path, data, -1, (rc, p, x, stat) -> {}, null);
                await(heard, patienceS, "events heard");
                times[round] = System.nanoTime() - began;
                nanos += times[round];
            }
            return answer.took((long) rounds * watchers, nanos, times);
        } finally {
            close(crowd);
        }
    }

    private static void await(CountDownLatch latch, int patienceS, String what) throws Exception {
        if (!latch.await(patienceS, TimeUnit.SECONDS)) {
            throw new IllegalStateException(latch.getCount() + " too few " + what + " after " + patienceS + " s");
        }
    }

    /** A session comes, makes its ephemeral nodes, and goes, and they with it: that is one operation for each request. */
    static Answer churn(Load load, int operations, byte[] data) throws Exception {
        int sessions = Math.max(AT_ONCE, operations / (EPHEMERALS + 2));
        Answer answer = new Answer();
        AtomicLong made = new AtomicLong();
        long began = System.nanoTime();
        List<Long> times = each(sessions, AT_ONCE, number -> {
            long start = System.nanoTime();
            ZooKeeper client = connected(load.hosts[number % load.hosts.length]);
            CountDownLatch all = new CountDownLatch(EPHEMERALS);
            for (int i = 0; i < EPHEMERALS; i++) {
                client.create("/bench/e/" + number + "-" + i, data, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL,
                    (rc, p, x, name) -> {
                        made.addAndGet(rc == Code.OK.intValue() ? 1 : 0);
                        all.countDown();
                    }, null);
            }
            await(all, CONNECT_S, "ephemeral nodes made");
            client.close();
            return System.nanoTime() - start;
        });
        long nanos = System.nanoTime() - began;
        if (made.get() != (long) sessions * EPHEMERALS) {
            throw new IllegalStateException("only " + made + " ephemeral nodes were made");
        }
        if (load.clients[0].getAllChildrenNumber("/bench/e") > 0) {
            throw new IllegalStateException("ephemeral nodes stayed when their sessions went");
        }
        return answer.took((long) sessions * (EPHEMERALS + 2), nanos, times.stream().mapToLong(Long::longValue).toArray());
    }
}
