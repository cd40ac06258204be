import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/**
 * Load for an ensemble, made by the stock client. Commands are lines of flat JSON on stdin, an answer is a line on
 * stdout. Both ensembles of a comparison are driven by this one process, so that neither has the better compiled client.
 */
public class Load {
    static final int NODES = 100;
    static final int SESSION_MS = 30_000;
    static final int SESSIONS_PER_ROUND = 120;  // a server of Apache's takes 60 of one address, and there are three

    final String[] hosts;
    final ZooKeeper[] clients;

    Load(String[] hosts, int connections) throws Exception {
        this.hosts = hosts;
        clients = new ZooKeeper[connections];
        for (int i = 0; i < connections; i++) {
            clients[i] = connected(hosts[i % hosts.length]);
        }
        clients[0].create("/bench", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        for (int i = 0; i < connections; i++) {
            ZooKeeper client = clients[i];
            client.create("/bench/" + i, null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
            client.create("/bench/" + i + "/x", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
            for (int n = 0; n < NODES; n++) {
                client.create(node(i, n), new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
            }
        }
    }

    static ZooKeeper connected(String host) throws Exception {
        CountDownLatch up = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper(host, SESSION_MS, event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                up.countDown();
            }
        });
        if (!up.await(20, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no session at " + host);
        }
        return client;
    }

    static String node(int client, int number) {
        return "/bench/" + client + "/" + number % NODES;
    }

    static String fresh(int client, int number) {
        return "/bench/" + client + "/x/" + number;
    }

    interface Issue {
        /** Sends request `number` of `client`; the answer's code goes to `run`. */
        void issue(int client, int number, Pump run) throws Exception;
    }

    /** Keeps so many requests under way on one connection: each answer sends the next. */
    static class Pump {
        final int client;
        final int count;
        final Issue issue;
        final long[] times;
        final AtomicInteger issued = new AtomicInteger();
        final AtomicInteger answered = new AtomicInteger();
        final CountDownLatch done = new CountDownLatch(1);
        volatile String failure;

        Pump(int client, int count, Issue issue) {
            this.client = client;
            this.count = count;
            this.issue = issue;
            times = new long[count];
        }

        void start(int outstanding) {
            for (int i = 0; i < outstanding; i++) {
                next();
            }
        }

        void next() {
            int number = issued.getAndIncrement();
            if (number >= count || failure != null) {
                return;
            }
            times[number] = System.nanoTime();
            try {
                issue.issue(client, number, this);
            } catch (Exception e) {
                fail(e.toString());
            }
        }

        void answer(int number, int code) {
            times[number] = System.nanoTime() - times[number];
            if (code != Code.OK.intValue()) {
                fail("request " + number + " of client " + client + ": " + Code.get(code));
            } else if (answered.incrementAndGet() == count) {
                done.countDown();
            } else {
                next();
            }
        }

        void fail(String why) {
            failure = why;
            done.countDown();
        }
    }

    Issue phase(String name, byte[] data) {
        switch (name) {
            case "set":
                return (c, n, run) -> clients[c].setData(node(c, n), data, -1, (rc, p, x, stat) -> run.answer(n, rc), null);
            case "get":
                return (c, n, run) ->
                    clients[c].getData(node(c, n), false, (rc, p, x, found, stat) -> run.answer(n, rc), null);
            case "exists":
                return (c, n, run) -> clients[c].exists(node(c, n), false, (rc, p, x, stat) -> run.answer(n, rc), null);
            case "create":
                return (c, n, run) -> clients[c].create(
                    fresh(c, n), data, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT, (rc, p, x, made) -> run.answer(n, rc), null);
            case "delete":
                return (c, n, run) -> clients[c].delete(fresh(c, n), -1, (rc, p, x) -> run.answer(n, rc), null);
            case "mixed":
                Issue set = phase("set", data);
                Issue get = phase("get", data);
                return (c, n, run) -> (n % 10 == 0 ? set : get).issue(c, n, run);
            case "multi":
                return (c, n, run) -> {
                    List<Op> ops = new ArrayList<>();
                    for (int i = 0; i < 10; i++) {
                        ops.add(Op.setData(node(c, n + i), data, -1));
                    }
                    clients[c].multi(ops, (rc, p, x, results) -> run.answer(n, rc), null);
                };
            default:
                throw new IllegalArgumentException("no phase " + name);
        }
    }

    String run(String name, int operations, int size, int outstanding, int connections, int patienceS) throws Exception {
        if (name.equals("connect")) {
            return connect(operations, connections);
        }
        byte[] data = new byte[size];
        Arrays.fill(data, (byte) 'x');
        Issue issue = phase(name, data);
        int each = operations / connections;
        long cpu = cpuNanos();
        List<Pump> pumps = new ArrayList<>();
        for (int i = 0; i < connections; i++) {
            pumps.add(new Pump(i, each, issue));
        }
        long began = System.nanoTime();
        long until = began + patienceS * 1_000_000_000L;
        if (outstanding > 1) {
            for (Pump pump : pumps) {
                pump.start(outstanding);
            }
        }
        for (Pump pump : pumps) {
            if (outstanding == 1) {
                pump.start(1);  // one after the other: one request in the whole ensemble
            }
            if (!pump.done.await(until - System.nanoTime(), TimeUnit.NANOSECONDS)) {
                throw new IllegalStateException("only " + pump.answered + " of " + each + " answers after " + patienceS + " s");
            }
            if (pump.failure != null) {
                throw new IllegalStateException(pump.failure);
            }
        }
        long seconds = System.nanoTime() - began;
        return answer(pumps.stream().flatMapToLong(pump -> Arrays.stream(pump.times)).sorted().toArray(), seconds, cpu);
    }

    /** Sessions come in rounds, and only their coming is timed: the stock client sleeps for 0.1 s when it closes one. */
    String connect(int operations, int threads) throws Exception {
        long[] times = new long[operations];
        long cpu = cpuNanos();
        long seconds = 0;
        ExecutorService pool = Executors.newFixedThreadPool(SESSIONS_PER_ROUND);
        for (int first = 0; first < operations; first += SESSIONS_PER_ROUND) {
            List<Future<ZooKeeper>> opened = new ArrayList<>();
            Semaphore turn = new Semaphore(threads);
            long began = System.nanoTime();
            for (int i = first; i < Math.min(operations, first + SESSIONS_PER_ROUND); i++) {
                int number = i;
                opened.add(pool.submit(() -> {
                    turn.acquire();
                    long start = System.nanoTime();
                    ZooKeeper client = connected(hosts[number % hosts.length]);
                    times[number] = System.nanoTime() - start;
                    turn.release();
                    return client;
                }));
            }
            List<ZooKeeper> round = new ArrayList<>();
            for (Future<ZooKeeper> each : opened) {
                round.add(each.get());
            }
            seconds += System.nanoTime() - began;
            List<Future<?>> closed = new ArrayList<>();
            for (ZooKeeper client : round) {
                closed.add(pool.submit(() -> {
                    client.close();
                    return null;
                }));
            }
            for (Future<?> each : closed) {
                each.get();
            }
        }
        pool.shutdown();
        return answer(Arrays.stream(times).sorted().toArray(), seconds, cpu);
    }

    static String answer(long[] all, long nanos, long cpuBefore) {
        return String.format(
            "{\"operations\": %d, \"seconds\": %.6f, \"client_cpu_s\": %.3f, \"p50_ms\": %.4f, \"p99_ms\": %.4f, \"max_ms\": %.4f}",
            all.length, nanos / 1e9, (cpuNanos() - cpuBefore) / 1e9, all[all.length / 2] / 1e6,
            all[all.length * 99 / 100] / 1e6, all[all.length - 1] / 1e6);
    }

    static long cpuNanos() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    static final Pattern FIELD = Pattern.compile("\"(\\w+)\": *(?:\"([^\"]*)\"|([-\\d.]+))");

    static String perform(Map<String, Load> loads, Map<String, String> asked) throws Exception {
        String label = asked.get("label");
        if (asked.get("do").equals("open")) {
            loads.put(label, new Load(asked.get("hosts").split(","), Integer.parseInt(asked.get("connections"))));
            return "{}";
        }
        return loads.get(label).run(
            asked.get("phase"), Integer.parseInt(asked.get("operations")), Integer.parseInt(asked.get("size")),
            Integer.parseInt(asked.get("outstanding")), Integer.parseInt(asked.get("connections")),
            Integer.parseInt(asked.get("patience_s")));
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Load> loads = new HashMap<>();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            Map<String, String> asked = new HashMap<>();
            for (Matcher field = FIELD.matcher(line); field.find(); ) {
                asked.put(field.group(1), field.group(2) != null ? field.group(2) : field.group(3));
            }
            String answer;
            try {
                answer = perform(loads, asked);
            } catch (Exception e) {
                e.printStackTrace();
                answer = "{\"error\": \"" + e.toString().replace('"', '\'').replace('\n', ' ') + "\"}";
            }
            System.out.println(answer);
            System.out.flush();
        }
        System.exit(0);  // sessions end with their sockets: nobody waits for them
    }
}
