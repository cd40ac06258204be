import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.CuratorEvent;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicInteger;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.cache.*;
import org.apache.curator.framework.recipes.leader.*;
import org.apache.curator.framework.recipes.locks.*;
import org.apache.curator.framework.recipes.nodes.*;
import org.apache.curator.framework.recipes.queue.*;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedValue;
import org.apache.curator.framework.recipes.watch.PersistentWatcher;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.retry.RetryForever;
import org.apache.curator.utils.CloseableUtils;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.data.Stat;

/**
 * Curator, framework and recipes, twice over: before and after the store's leader is stopped. What was begun before has to go on
 * after. Arguments: all hosts; the id of the leader, or 0. Says a line for each thing it tries, and "stop it" in between.
 */
@SuppressWarnings("deprecation")
public class Tour {
    static CuratorFramework one, two, doomed;
    static String root;

    public static void main(String[] arguments) throws Exception {
        one = client(arguments[0]);
        two = client(arguments[0]);
        doomed = clientOf(arguments[0], Long.parseLong(arguments[1]));
        root = "/before";
        framework();
        recipes();

        LeaderLatch latch = new LeaderLatch(doomed, "/latch", "doomed");
        latch.start();
        latch.await(180, TimeUnit.SECONDS);
        LeaderLatch heir = new LeaderLatch(two, "/latch", "heir");
        heir.start();
        PersistentNode persistent = new PersistentNode(doomed, CreateMode.EPHEMERAL, false, "/persistent", "p".getBytes());
        persistent.start();
        GroupMember mine = new GroupMember(doomed, "/group", "doomed");
        GroupMember yours = new GroupMember(two, "/group", "two");
        mine.start();
        yours.start();
        CuratorCache cache = CuratorCache.build(doomed, "/followed");
        BlockingQueue<String> followed = new LinkedBlockingQueue<>();
        cache.listenable().addListener((type, old, data) -> { if (data != null) followed.add(new String(data.getData())); });
        cache.start();
        two.create().forPath("/followed", "first".getBytes());
        check("cache begins", () -> "first".equals(followed.poll(180, TimeUnit.SECONDS)));
        check("persistent node begins", () -> persistent.waitForInitialCreate(180, TimeUnit.SECONDS));
        check("group begins", () -> eventually(() -> yours.getCurrentMembers().size() == 2));
        InterProcessMutex held = new InterProcessMutex(two, "/held");
        held.acquire();

        // Names with a GUID: whoever loses a connection in the midst of a create finds out whether it was done.
        two.create().forPath("/protected");
        AtomicInteger made = new AtomicInteger();
        boolean[] enough = {false};
        Thread creating = new Thread(() -> {
            while (!enough[0]) {
                try {
                    doomed.create().withProtection().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath("/protected/n-");
                    made.incrementAndGet();
                } catch (Exception wrong) {
                    say("protected create threw " + wrong + " false");
                    return;
                }
            }
        });
        creating.start();
        say("stop it");
        System.in.read();
        Thread.sleep(500);
        int before = made.get();
        check("protected creates go on", () -> eventually(() -> made.get() > before + 20));
        enough[0] = true;
        creating.join();
        check("protected creates are made once", () -> eventually(() -> one.getChildren().forPath("/protected").size() == made.get()));

        check("cache goes on", () -> {
            two.setData().forPath("/followed", "second".getBytes());
            return "second".equals(followed.poll(180, TimeUnit.SECONDS));
        });
        check("persistent node is there", () -> eventually(() -> two.checkExists().forPath("/persistent") != null));
        check("group is whole", () -> eventually(() -> yours.getCurrentMembers().size() == 2));
        check("one of them leads", () -> eventually(() -> latch.hasLeadership() != heir.hasLeadership()));
        check("mutex is still held", () -> {
            InterProcessMutex other = new InterProcessMutex(one, "/held");
            boolean excluded = !other.acquire(300, TimeUnit.MILLISECONDS);
            held.release();
            boolean free = other.acquire(180, TimeUnit.SECONDS);
            other.release();
            return excluded && free;
        });
        check("leadership is handed on", () -> { latch.close(); return heir.await(180, TimeUnit.SECONDS); });
        for (java.io.Closeable each : List.of(heir, persistent, mine, yours, cache)) CloseableUtils.closeQuietly(each);

        root = "/after";
        framework();
        recipes();
        one.close();
        two.close();
        doomed.close();
        say("done");
    }

    // -- the framework ------------------------------------------------------------------------------------

    static void framework() {
        check("parents that are containers", () -> {
            one.create().creatingParentContainersIfNeeded().forPath(at("/a/b"), "x".getBytes());
            return new String(two.getData().forPath(synced("/a/b"))).equals("x");
        });
        check("every mode", () -> {
            for (CreateMode mode : CreateMode.values()) {
                Stat stat = new Stat();
                var create = mode.isTTL() ? one.create().withTtl(600_000).storingStatIn(stat) : one.create().storingStatIn(stat);
                String path = create.withMode(mode).forPath(at("/a/" + mode));
                if (mode.isEphemeral() != (stat.getEphemeralOwner() != 0) || mode.isSequential() == path.endsWith(mode.toString())) return false;
            }
            return true;
        });
        check("create or set", () -> {
            one.create().orSetData().forPath(at("/a/b"), "y".getBytes());
            Stat stat = new Stat();
            return new String(one.getData().storingStatIn(stat).forPath(at("/a/b"))).equals("y") && stat.getVersion() == 1;
        });
        check("wrong version", () -> throwing(KeeperException.BadVersionException.class, () -> one.setData().withVersion(7).forPath(at("/a/b"))));
        check("set once, however often", () -> one.setData().idempotent().withVersion(1).forPath(at("/a/b"), "z".getBytes()).getVersion() == 2);
        check("in the background", () -> {
            BlockingQueue<CuratorEvent> events = new LinkedBlockingQueue<>();
            var into = (org.apache.curator.framework.api.BackgroundCallback) (client, event) -> events.add(event);
            one.create().inBackground(into).forPath(at("/a/bg"), "b".getBytes());
            one.getData().inBackground(into).forPath(at("/a/bg"));
            one.checkExists().inBackground(into).forPath(at("/a/nope"));
            one.getChildren().inBackground(into).forPath(at("/a"));
            one.delete().inBackground(into).forPath(at("/a/bg"));
            int[] codes = new int[5];
            for (int index = 0; index < 5; index++) codes[index] = events.poll(180, TimeUnit.SECONDS).getResultCode();
            return java.util.Arrays.equals(codes, new int[] {0, 0, -101, 0, 0});
        });
        check("transaction", () -> {
            List<CuratorTransactionResult> results = one.transaction().forOperations(
                one.transactionOp().create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath(at("/a/t-"), "1".getBytes()),
                one.transactionOp().setData().forPath(at("/a/b"), "2".getBytes()),
                one.transactionOp().check().withVersion(3).forPath(at("/a/b")),
                one.transactionOp().create().forPath(at("/a/gone")),
                one.transactionOp().delete().forPath(at("/a/gone")));
            return results.size() == 5 && results.get(0).getResultPath().startsWith(at("/a/t-")) && results.get(1).getResultStat().getVersion() == 3;
        });
        check("transaction that fails", () -> {
            try {
                one.transaction().forOperations(
                    one.transactionOp().create().forPath(at("/a/never")), one.transactionOp().check().withVersion(77).forPath(at("/a/b")));
                return false;
            } catch (KeeperException.BadVersionException expected) {
                return expected.getResults().size() == 2 && one.checkExists().forPath(at("/a/never")) == null;
            }
        });
        check("permissions", () -> {
            try (CuratorFramework owner = CuratorFrameworkFactory.builder().connectString(one.getZookeeperClient().getCurrentConnectionString())
                .authorization("digest", "u:p".getBytes()).retryPolicy(new RetryForever(100)).build()) {
                owner.start();
                owner.create().withACL(ZooDefs.Ids.CREATOR_ALL_ACL).forPath(at("/a/mine"), "m".getBytes());
                one.sync().forPath(at("/a"));
                boolean refused = throwing(KeeperException.NoAuthException.class, () -> one.getData().forPath(at("/a/mine")));
                boolean listed = owner.getACL().forPath(at("/a/mine")).get(0).getId().getId().startsWith("u:");
                owner.setACL().withACL(ZooDefs.Ids.OPEN_ACL_UNSAFE).forPath(at("/a/mine"));
                return refused && listed && new String(one.getData().forPath(synced("/a/mine"))).equals("m");
            }
        });
        check("a watch on a subtree", () -> {
            BlockingQueue<String> seen = new LinkedBlockingQueue<>();
            org.apache.zookeeper.Watcher watcher = event -> seen.add(event.getType() + " " + event.getPath());
            one.watchers().add().withMode(AddWatchMode.PERSISTENT_RECURSIVE).usingWatcher(watcher).forPath(at("/a"));
            two.create().forPath(at("/a/w"));
            two.setData().forPath(at("/a/w"), "w".getBytes());
            two.delete().forPath(at("/a/w"));
            for (String kind : List.of("NodeCreated", "NodeDataChanged", "NodeDeleted")) {
                if (!(kind + " " + at("/a/w")).equals(seen.poll(180, TimeUnit.SECONDS))) return false;
            }
            one.watchers().remove(watcher).forPath(at("/a"));
            two.setData().forPath(at("/a/b"), "unseen".getBytes());
            one.getData().forPath(synced("/a/b"));
            return !seen.contains("NodeDataChanged " + at("/a/b"));
        });
        check("watched reads", () -> {
            CountDownLatch data = new CountDownLatch(1), children = new CountDownLatch(1), exists = new CountDownLatch(1);
            one.getData().usingWatcher((org.apache.zookeeper.Watcher) event -> data.countDown()).forPath(at("/a/b"));
            one.getChildren().usingWatcher((org.apache.zookeeper.Watcher) event -> children.countDown()).forPath(at("/a/b"));
            one.checkExists().usingWatcher((org.apache.zookeeper.Watcher) event -> exists.countDown()).forPath(at("/a/b/c"));
            two.setData().forPath(at("/a/b"), "!".getBytes());
            two.create().forPath(at("/a/b/c"));
            return data.await(180, TimeUnit.SECONDS) && children.await(180, TimeUnit.SECONDS) && exists.await(180, TimeUnit.SECONDS);
        });
        check("the ensemble's configuration", () -> one.getConfig().forEnsemble() != null && one.getCurrentConfig() != null);
        check("a namespace", () -> {
            CuratorFramework within = one.usingNamespace(root.substring(1));
            within.create().orSetData().forPath("/within", "n".getBytes());
            return new String(one.getData().forPath(at("/within"))).equals("n");
        });
        check("delete with all below, for certain", () -> {
            one.delete().guaranteed().deletingChildrenIfNeeded().forPath(at("/a"));
            one.delete().quietly().forPath(at("/a"));
            return one.checkExists().forPath(at("/a")) == null;
        });
    }

    // -- the recipes --------------------------------------------------------------------------------------

    static void recipes() {
        check("InterProcessMutex", () -> excludes(new InterProcessMutex(one, at("/mutex")), new InterProcessMutex(two, at("/mutex"))));
        check("InterProcessMutex is reentrant", () -> {
            InterProcessMutex mutex = new InterProcessMutex(one, at("/mutex"));
            mutex.acquire();
            mutex.acquire();
            mutex.release();
            boolean owned = mutex.isOwnedByCurrentThread() && mutex.getParticipantNodes().size() == 1;
            mutex.release();
            return owned && !mutex.isAcquiredInThisProcess();
        });
        check("InterProcessSemaphoreMutex", () -> excludes(new InterProcessSemaphoreMutex(one, at("/smutex")), new InterProcessSemaphoreMutex(two, at("/smutex"))));
        check("InterProcessMultiLock", () -> excludes(
            new InterProcessMultiLock(one, List.of(at("/m1"), at("/m2"))), new InterProcessMutex(two, at("/m2"))));
        check("InterProcessReadWriteLock", () -> {
            InterProcessReadWriteLock mine = new InterProcessReadWriteLock(one, at("/rw")), yours = new InterProcessReadWriteLock(two, at("/rw"));
            mine.readLock().acquire();
            boolean shared = yours.readLock().acquire(180, TimeUnit.SECONDS);
            yours.readLock().release();
            boolean excluded = !yours.writeLock().acquire(200, TimeUnit.MILLISECONDS);
            mine.readLock().release();
            boolean written = yours.writeLock().acquire(180, TimeUnit.SECONDS);
            boolean unread = !mine.readLock().acquire(200, TimeUnit.MILLISECONDS);
            yours.writeLock().release();
            return shared && excluded && written && unread;
        });
        check("InterProcessSemaphoreV2", () -> {
            InterProcessSemaphoreV2 mine = new InterProcessSemaphoreV2(one, at("/semaphore"), 2), yours = new InterProcessSemaphoreV2(two, at("/semaphore"), 2);
            Lease first = mine.acquire(), second = yours.acquire();
            boolean full = yours.acquire(200, TimeUnit.MILLISECONDS) == null;
            mine.returnLease(first);
            Lease third = yours.acquire(180, TimeUnit.SECONDS);
            yours.returnLease(second);
            yours.returnLease(third);
            return full && third != null;
        });
        check("LeaderLatch", () -> {
            LeaderLatch first = new LeaderLatch(one, at("/latch"), "1"), second = new LeaderLatch(two, at("/latch"), "2");
            first.start();
            first.await(180, TimeUnit.SECONDS);
            second.start();
            boolean listed = eventually(() -> second.getParticipants().size() == 2) && second.getLeader().getId().equals("1");
            boolean alone = first.hasLeadership() && !second.hasLeadership();
            first.close();
            boolean handed = second.await(180, TimeUnit.SECONDS);
            second.close();
            return listed && alone && handed;
        });
        check("LeaderSelector", () -> {
            BlockingQueue<String> led = new LinkedBlockingQueue<>();
            LeaderSelector first = selector(one, "1", led), second = selector(two, "2", led);
            first.autoRequeue();
            second.autoRequeue();
            first.start();
            second.start();
            boolean both = eventually(() -> Set.copyOf(led).size() == 2);
            first.close();
            second.close();
            return both;
        });
        check("DistributedBarrier", () -> {
            DistributedBarrier mine = new DistributedBarrier(one, at("/barrier")), yours = new DistributedBarrier(two, at("/barrier"));
            mine.setBarrier();
            two.sync().forPath("/");
            boolean waits = !yours.waitOnBarrier(200, TimeUnit.MILLISECONDS);
            mine.removeBarrier();
            return waits && yours.waitOnBarrier(180, TimeUnit.SECONDS);
        });
        check("DistributedDoubleBarrier", () -> {
            DistributedDoubleBarrier mine = new DistributedDoubleBarrier(one, at("/double"), 2), yours = new DistributedDoubleBarrier(two, at("/double"), 2);
            boolean waits = !mine.enter(200, TimeUnit.MILLISECONDS);
            if (!waits) return false;
            CountDownLatch through = new CountDownLatch(2);
            DistributedDoubleBarrier again = new DistributedDoubleBarrier(one, at("/double2"), 2), too = new DistributedDoubleBarrier(two, at("/double2"), 2);
            for (DistributedDoubleBarrier barrier : List.of(again, too)) {
                new Thread(() -> {
                    try {
                        if (barrier.enter(180, TimeUnit.SECONDS) && barrier.leave(180, TimeUnit.SECONDS)) through.countDown();
                    } catch (Exception wrong) {
                        say("DistributedDoubleBarrier threw " + wrong);
                    }
                }).start();
            }
            return through.await(180, TimeUnit.SECONDS);
        });
        check("DistributedQueue", () -> {
            BlockingQueue<String> taken = new LinkedBlockingQueue<>();
            DistributedQueue<String> producer = QueueBuilder.builder(one, null, new Words(), at("/queue")).buildQueue();
            DistributedQueue<String> consumer = QueueBuilder.builder(two, new Taker(taken), new Words(), at("/queue")).lockPath(at("/queue-lock")).buildQueue();
            producer.start();
            consumer.start();
            for (String word : List.of("a", "b", "c")) producer.put(word);
            boolean order = take(taken, 3).equals(List.of("a", "b", "c"));
            producer.close();
            consumer.close();
            return order;
        });
        check("DistributedPriorityQueue", () -> {
            BlockingQueue<String> taken = new LinkedBlockingQueue<>();
            DistributedPriorityQueue<String> producer = QueueBuilder.builder(one, null, new Words(), at("/pqueue")).buildPriorityQueue(1);
            producer.start();
            producer.put("late", 9);
            producer.put("early", 1);
            producer.flushPuts(180, TimeUnit.SECONDS);
            two.sync().forPath("/");
            DistributedPriorityQueue<String> consumer = QueueBuilder.builder(two, new Taker(taken), new Words(), at("/pqueue")).buildPriorityQueue(1);
            consumer.start();
            boolean order = take(taken, 2).equals(List.of("early", "late"));
            producer.close();
            consumer.close();
            return order;
        });
        check("SimpleDistributedQueue", () -> {
            SimpleDistributedQueue mine = new SimpleDistributedQueue(one, at("/simple")), yours = new SimpleDistributedQueue(two, at("/simple"));
            mine.offer("x".getBytes());
            mine.offer("y".getBytes());
            return new String(yours.take()).equals("x") && new String(yours.poll(180, TimeUnit.SECONDS)).equals("y") && yours.poll() == null;
        });
        check("SharedCount", () -> {
            try (SharedCount mine = new SharedCount(one, at("/count"), 5); SharedCount yours = new SharedCount(two, at("/count"), 5)) {
                mine.start();
                yours.start();
                boolean set = mine.trySetCount(mine.getVersionedValue(), 6);
                boolean seen = eventually(() -> yours.getCount() == 6);
                return set && seen && yours.trySetCount(yours.getVersionedValue(), 7);
            }
        });
        check("SharedValue", () -> {
            try (SharedValue mine = new SharedValue(one, at("/value"), "a".getBytes()); SharedValue yours = new SharedValue(two, at("/value"), "a".getBytes())) {
                mine.start();
                yours.start();
                mine.setValue("b".getBytes());
                return eventually(() -> new String(yours.getValue()).equals("b"));
            }
        });
        check("DistributedAtomicLong", () -> {
            DistributedAtomicLong mine = new DistributedAtomicLong(one, at("/long"), new ExponentialBackoffRetry(20, 29, 1000));
            DistributedAtomicLong yours = new DistributedAtomicLong(two, at("/long"), new ExponentialBackoffRetry(20, 29, 1000));
            for (int count = 0; count < 10; count++) if (!mine.increment().succeeded() || !yours.add(2L).succeeded()) return false;
            return eventually(() -> mine.get().postValue() == 30);  // another server may be a little behind
        });
        check("DistributedAtomicInteger", () -> {
            DistributedAtomicInteger counter = new DistributedAtomicInteger(
                one, at("/integer"), new ExponentialBackoffRetry(20, 29, 1000), org.apache.curator.framework.recipes.atomic.PromotedToLock.builder().lockPath(at("/integer-lock")).build());
            counter.initialize(3);
            return counter.compareAndSet(3, 4).succeeded() && !counter.compareAndSet(3, 5).succeeded() && counter.decrement().postValue() == 3;
        });
        check("PathChildrenCache", () -> {
            one.create().creatingParentsIfNeeded().forPath(at("/children/a"), "1".getBytes());
            try (PathChildrenCache cache = new PathChildrenCache(one, at("/children"), true)) {
                BlockingQueue<String> seen = new LinkedBlockingQueue<>();
                cache.getListenable().addListener((client, event) -> seen.add(event.getType().toString()));
                cache.start(PathChildrenCache.StartMode.BUILD_INITIAL_CACHE);
                two.create().forPath(at("/children/b"), "2".getBytes());
                two.setData().forPath(at("/children/a"), "3".getBytes());
                boolean both = eventually(() -> cache.getCurrentData().size() == 2 && new String(cache.getCurrentData(at("/children/a")).getData()).equals("3"));
                two.delete().forPath(at("/children/b"));
                return both && eventually(() -> seen.contains("CHILD_REMOVED"));
            }
        });
        check("NodeCache", () -> {
            try (NodeCache cache = new NodeCache(one, at("/node"))) {
                cache.start(true);
                boolean nothing = cache.getCurrentData() == null;
                two.create().creatingParentsIfNeeded().forPath(at("/node"), "1".getBytes());
                return nothing && eventually(() -> cache.getCurrentData() != null && new String(cache.getCurrentData().getData()).equals("1"));
            }
        });
        check("TreeCache", () -> {
            try (TreeCache cache = new TreeCache(one, at("/tree"))) {
                cache.start();
                two.create().creatingParentsIfNeeded().forPath(at("/tree/a/b"), "1".getBytes());
                boolean there = eventually(() -> cache.getCurrentData(at("/tree/a/b")) != null);
                two.delete().deletingChildrenIfNeeded().forPath(at("/tree/a"));
                return there && eventually(() -> cache.getCurrentData(at("/tree/a/b")) == null);
            }
        });
        check("CuratorCache", () -> {
            two.create().creatingParentsIfNeeded().forPath(at("/cache/a"), "1".getBytes());
            one.sync().forPath("/");
            try (CuratorCache cache = CuratorCache.build(one, at("/cache"))) {
                CountDownLatch ready = new CountDownLatch(1);
                cache.listenable().addListener(CuratorCacheListener.builder().forInitialized(ready::countDown).build());
                cache.start();
                boolean begun = ready.await(180, TimeUnit.SECONDS);
                two.create().forPath(at("/cache/a/b"), "2".getBytes());
                two.delete().deletingChildrenIfNeeded().forPath(at("/cache/a"));
                return begun && eventually(() -> cache.size() == 1);
            }
        });
        check("PersistentWatcher", () -> {
            BlockingQueue<String> seen = new LinkedBlockingQueue<>();
            try (PersistentWatcher watcher = new PersistentWatcher(one, at("/watched"), true)) {
                watcher.getListenable().addListener(event -> { if (event.getPath() != null) seen.add(event.getPath()); });
                CountDownLatch set = new CountDownLatch(1);
                watcher.getResetListenable().addListener(set::countDown);
                watcher.start();
                set.await(180, TimeUnit.SECONDS);
                two.create().creatingParentsIfNeeded().forPath(at("/watched/x"));
                return at("/watched").equals(seen.poll(180, TimeUnit.SECONDS)) && at("/watched/x").equals(seen.poll(180, TimeUnit.SECONDS));
            }
        });
        check("PersistentNode", () -> {
            try (PersistentNode node = new PersistentNode(one, CreateMode.EPHEMERAL, true, at("/persistent"), "1".getBytes())) {
                node.start();
                node.waitForInitialCreate(180, TimeUnit.SECONDS);
                two.sync().forPath("/");
                String path = node.getActualPath();
                two.delete().forPath(path);
                boolean again = eventually(() -> two.checkExists().forPath(path) != null);
                node.setData("2".getBytes());
                return again && eventually(() -> new String(two.getData().forPath(path)).equals("2"));
            }
        });
        check("PersistentTtlNode", () -> {
            try (PersistentTtlNode node = new PersistentTtlNode(one, at("/ttl"), 60_000, "t".getBytes())) {
                node.start();
                return node.waitForInitialCreate(180, TimeUnit.SECONDS) && two.checkExists().forPath(synced("/ttl")) != null;
            }
        });
        check("GroupMember", () -> {
            try (GroupMember first = new GroupMember(one, at("/members"), "1", "x".getBytes()); GroupMember second = new GroupMember(two, at("/members"), "2")) {
                first.start();
                second.start();
                boolean both = eventually(() -> second.getCurrentMembers().keySet().equals(Set.of("1", "2")));
                first.close();
                return both && eventually(() -> second.getCurrentMembers().size() == 1);
            }
        });
        check("ChildReaper's work is the server's", () -> {
            one.create().withMode(CreateMode.CONTAINER).forPath(at("/container"));
            one.create().forPath(at("/container/c"));
            one.delete().forPath(at("/container/c"));
            return eventually(() -> one.checkExists().forPath(at("/container")) == null);
        });
    }

    // -- what they stand on -------------------------------------------------------------------------------

    static class Words implements QueueSerializer<String> {
        public byte[] serialize(String item) { return item.getBytes(); }
        public String deserialize(byte[] bytes) { return new String(bytes); }
    }

    static class Taker implements QueueConsumer<String> {
        final BlockingQueue<String> into;
        Taker(BlockingQueue<String> into) { this.into = into; }
        public void consumeMessage(String message) { into.add(message); }
        public void stateChanged(CuratorFramework client, ConnectionState state) { }
    }

    static List<String> take(BlockingQueue<String> from, int count) throws Exception {
        List<String> taken = new ArrayList<>();
        for (int index = 0; index < count; index++) taken.add(from.poll(180, TimeUnit.SECONDS));
        return taken;
    }

    static LeaderSelector selector(CuratorFramework client, String id, BlockingQueue<String> led) {
        LeaderSelector made = new LeaderSelector(client, at("/selector"), new LeaderSelectorListenerAdapter() {
            public void takeLeadership(CuratorFramework leads) throws Exception { led.add(id); Thread.sleep(20); }
        });
        made.setId(id);
        return made;
    }

    static boolean excludes(InterProcessLock mine, InterProcessLock yours) throws Exception {
        mine.acquire();
        boolean excluded = !yours.acquire(200, TimeUnit.MILLISECONDS);
        mine.release();
        boolean acquired = yours.acquire(180, TimeUnit.SECONDS);
        yours.release();
        return excluded && acquired;
    }

    static String at(String path) { return root + path; }

    /** The path, once the second client sees what the first has done. */
    static String synced(String path) throws Exception {
        one.sync().forPath("/");
        two.sync().forPath("/");
        return at(path);
    }

    static CuratorFramework client(String hosts) throws Exception {
        CuratorFramework made = CuratorFrameworkFactory.newClient(hosts, 20000, 20000, new ExponentialBackoffRetry(50, 29, 2000));
        made.start();
        made.blockUntilConnected();
        return made;
    }

    /** One whose server is the leader: the first byte of a session's id says who made it. */
    static CuratorFramework clientOf(String hosts, long leader) throws Exception {
        while (true) {
            CuratorFramework made = client(hosts);
            if (leader == 0 || made.getZookeeperClient().getZooKeeper().getSessionId() >>> 56 == leader) return made;
            made.close();
        }
    }

    static boolean throwing(Class<? extends Exception> wanted, Callable<?> work) throws Exception {
        try {
            work.call();
            return false;
        } catch (Exception thrown) {
            return wanted.isInstance(thrown);
        }
    }

    static boolean eventually(Callable<Boolean> look) throws Exception {
        for (int count = 0; count < 7200; count++) {
            if (look.call()) return true;
            Thread.sleep(25);
        }
        return false;
    }

    static void check(String name, Callable<Boolean> work) {
        try {
            say(name + " " + work.call());
        } catch (Throwable thrown) {
            say(name + " threw " + thrown + " false");
        }
    }

    static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
