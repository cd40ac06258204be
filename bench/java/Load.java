import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/**
 * Load for an ensemble, made by the stock client. Commands are lines of flat JSON on stdin, an answer is a line on
 * stdout. Both ensembles of a comparison are driven by this one process, so that neither has the better compiled client.
 */
public class Load {
    static final int NODES = 100;
    static final int MADE_AT_ONCE = 500;

    final String[] hosts;
    final ZooKeeper[] clients;
    boolean listed;

    Load(String[] hosts, int connections) throws Exception {
        this.hosts = hosts;
        clients = new ZooKeeper[connections];
        for (int i = 0; i < connections; i++) {
            clients[i] = Sessions.connected(hosts[i % hosts.length]);
        }
        List<String> paths = new ArrayList<>(List.of("/bench", "/bench/e"));
        for (int i = 0; i < connections; i++) {
            paths.addAll(List.of("/bench/" + i, "/bench/" + i + "/x"));
            for (int n = 0; n < NODES; n++) {
                paths.add(node(i, n));
            }
        }
        make(paths);
    }

    /** Those that are not there yet. */
    private void make(List<String> paths) throws Exception {
        Semaphore room = new Semaphore(MADE_AT_ONCE);
        List<String> failed = new ArrayList<>();
        for (String path : paths) {
            room.acquire();
            clients[0].create(path, new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT, (rc, p, x, made) -> {
                if (rc != Code.OK.intValue() && rc != Code.NODEEXISTS.intValue()) {
                    failed.add(path + ": " + Code.get(rc));
                }
                room.release();
            }, null);
        }
        room.acquire(MADE_AT_ONCE);
        if (!failed.isEmpty()) {
            throw new IllegalStateException(failed.get(0));
        }
    }

    static String node(int place, int number) {
        return "/bench/" + place + "/" + number % NODES;
    }

    static String fresh(int place, int number) {
        return "/bench/" + place + "/x/" + number;
    }

    static Pump.Issue phase(String name, byte[] data) {
        switch (name) {
            case "set":
                return (pump, n) ->
                    pump.zk.setData(node(pump.place, n), data, -1, (rc, p, x, stat) -> pump.answer(n, rc), null);
            case "get":
                return (pump, n) ->
                    pump.zk.getData(node(pump.place, n), false, (rc, p, x, found, stat) -> pump.answer(n, rc), null);
            case "exists":
                return (pump, n) ->
                    pump.zk.exists(node(pump.place, n), false, (rc, p, x, stat) -> pump.answer(n, rc), null);
            case "create":
                return (pump, n) -> pump.zk.create(fresh(pump.place, n), data, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT,
                    (rc, p, x, made) -> pump.answer(n, rc), null);
            case "delete":
                return (pump, n) -> pump.zk.delete(fresh(pump.place, n), -1, (rc, p, x) -> pump.answer(n, rc), null);
            case "ephemerals":  // made and deleted: two requests, of which the second is answered last
                return (pump, n) -> {
                    pump.zk.create(fresh(pump.place, n), data, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL,
                        (rc, p, x, made) -> {
                            if (rc != Code.OK.intValue()) {
                                pump.fail("an ephemeral node was not made: " + Code.get(rc));
                            }
                        }, null);
                    pump.zk.delete(fresh(pump.place, n), -1, (rc, p, x) -> pump.answer(n, rc), null);
                };
            case "children":
                return (pump, n) ->
                    pump.zk.getChildren("/bench/list", false, (rc, p, x, found) -> pump.answer(n, rc), null);
            case "mixed":
                Pump.Issue set = phase("set", data);
                Pump.Issue get = phase("get", data);
                return (pump, n) -> (n % 10 == 0 ? set : get).issue(pump, n);
            case "multi":
                return (pump, n) -> {
                    List<Op> ops = new ArrayList<>();
                    for (int i = 0; i < 10; i++) {
                        ops.add(Op.setData(node(pump.place, n + i), data, -1));
                    }
                    pump.zk.multi(ops, (rc, p, x, results) -> pump.answer(n, rc), null);
                };
            default:
                throw new IllegalArgumentException("no phase " + name);
        }
    }

    void list(int children) throws Exception {
        if (listed) {
            return;
        }
        List<String> paths = new ArrayList<>(List.of("/bench/list"));
        for (int i = 0; i < children; i++) {
            paths.add(String.format("/bench/list/node-%010d", i));
        }
        make(paths);
        listed = true;
    }

    Answer run(Asked asked) throws Exception {
        String name = asked.text("phase");
        int operations = asked.number("operations");
        int outstanding = asked.number("outstanding");
        int patienceS = asked.number("patience_s");
        byte[] data = new byte[asked.number("size")];
        Arrays.fill(data, (byte) 'x');
        switch (name) {
            case "connect":
                return Sessions.connect(hosts, operations, clients.length);
            case "sessions":
                return Sessions.crowded(
                    this, asked.number("idle"), asked.number("active"), operations, phase("mixed", data), outstanding, patienceS);
            case "fan-out":
                int watchers = asked.number("watchers");
                return Sessions.fanOut(this, watchers, Math.max(3, operations / watchers), data, patienceS);
            case "churn":
                return Sessions.churn(this, operations, data);
            case "children":
                list(asked.number("children"));
                break;
            default:
        }
        List<Pump> pumps = new ArrayList<>();
        for (int i = 0; i < clients.length; i++) {
            pumps.add(new Pump(clients[i], i, operations / clients.length, phase(name, data)));
        }
        return Pump.run(pumps, outstanding, patienceS);
    }

    void close() throws Exception {
        Sessions.close(Arrays.asList(clients));
    }

    /** A command: flat JSON. */
    static final class Asked {
        private static final Pattern FIELD = Pattern.compile("\"(\\w+)\": *(?:\"([^\"]*)\"|([-\\d.]+))");
        private final Map<String, String> fields = new HashMap<>();

        Asked(String line) {
            for (Matcher field = FIELD.matcher(line); field.find(); ) {
                fields.put(field.group(1), field.group(2) != null ? field.group(2) : field.group(3));
            }
        }

        String text(String name) {
            if (!fields.containsKey(name)) {
                throw new IllegalArgumentException("the command names no " + name);
            }
            return fields.get(name);
        }

        int number(String name) {
            return Integer.parseInt(text(name));
        }
    }

    static Answer perform(Map<String, Load> loads, Map<String, Writers> writers, Asked asked) throws Exception {
        String label = asked.text("label");
        switch (asked.text("do")) {
            case "open":
                loads.put(label, new Load(asked.text("hosts").split(","), asked.number("connections")));
                return new Answer();
            case "close":
                loads.remove(label).close();
                return new Answer();
            case "run":
                return loads.get(label).run(asked);
            case "write":
                writers.put(label, new Writers(asked.text("hosts").split(","), asked.number("every_us")));
                return new Answer();
            case "again":
                return writers.get(label).again();
            case "gaps":
                return writers.remove(label).gaps(asked.number("patience_s"));
            default:
                throw new IllegalArgumentException("no command " + asked.text("do"));
        }
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Load> loads = new HashMap<>();
        Map<String, Writers> writers = new HashMap<>();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String answer;
            try {
                answer = perform(loads, writers, new Asked(line)).toString();
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
