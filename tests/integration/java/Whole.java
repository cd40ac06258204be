import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.*;
import org.apache.zookeeper.Watcher.WatcherType;
import org.apache.zookeeper.admin.ZooKeeperAdmin;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/**
 * The whole interface of the Java client, waited for and not, before and after the store's leader is stopped; and watches of
 * every kind that have to live through that. Arguments: all hosts; the id of the leader, or 0.
 */
public class Whole {
    static final List<ACL> OPEN = ZooDefs.Ids.OPEN_ACL_UNSAFE;
    static final byte[] X = "x".getBytes();
    static ZooKeeper zk, other;
    static String root;

    public static void main(String[] arguments) throws Exception {
        zk = client(arguments[0], Long.parseLong(arguments[1]));
        other = client(arguments[0], 0);
        root = "/before";
        everything(arguments[0]);

        other.create("/w", X, OPEN, CreateMode.PERSISTENT);
        other.create("/w/gone", X, OPEN, CreateMode.PERSISTENT);
        zk.sync("/w");
        Seen data = new Seen(), exist = new Seen(), child = new Seen(), persistent = new Seen(), recursive = new Seen(), gone = new Seen();
        zk.getData("/w", data, null);
        zk.exists("/w/c", exist);
        zk.getChildren("/w", child);
        zk.getData("/w/gone", gone, null);
        zk.addWatch("/w", persistent, AddWatchMode.PERSISTENT);
        zk.addWatch("/w", recursive, AddWatchMode.PERSISTENT_RECURSIVE);
        String mine = zk.create("/mine", X, OPEN, CreateMode.EPHEMERAL);
        long session = zk.getSessionId();
        say("stop it");
        System.in.read();
        check("the session is the same", () -> forSure(() -> zk.exists(mine, false)).getEphemeralOwner() == session && zk.getSessionId() == session);
        forSure(() -> other.setData("/w", "y".getBytes(), -1));
        forSure(() -> other.create("/w/c", X, OPEN, CreateMode.PERSISTENT));
        forSure(() -> { other.delete("/w/gone", -1); return null; });
        check("a data watch lives on", () -> data.is("NodeDataChanged /w"));
        check("an exists watch lives on", () -> exist.is("NodeCreated /w/c"));
        check("a child watch lives on", () -> child.is("NodeChildrenChanged /w"));
        check("a watch on what is deleted lives on", () -> gone.is("NodeDeleted /w/gone"));
        check("a persistent watch lives on", () -> persistent.is("NodeDataChanged /w") && persistent.is("NodeChildrenChanged /w") && persistent.is("NodeChildrenChanged /w"));
        check("a recursive watch lives on", () -> recursive.is("NodeDataChanged /w") && recursive.is("NodeCreated /w/c") && recursive.is("NodeDeleted /w/gone"));

        root = "/after";
        everything(arguments[0]);
        check("close", () -> { zk.close(); other.close(); return !zk.getState().isAlive(); });
        say("done");
    }

    static void everything(String hosts) {
        check("create", () -> zk.create(root, X, OPEN, CreateMode.PERSISTENT).equals(root));
        for (CreateMode mode : CreateMode.values()) {
            check("create " + mode, () -> {
                Stat stat = new Stat();
                String path = zk.create(at("/" + mode), null, OPEN, mode, stat, mode.isTTL() ? 100_000 : -1);
                return path.startsWith(at("/" + mode)) && stat.getCzxid() == zk.exists(path, false).getCzxid() && zk.getData(path, false, null) == null;
            });
        }
        check("set and get", () -> {
            Stat set = zk.setData(at("/PERSISTENT"), X, 0), got = new Stat();
            return new String(zk.getData(at("/PERSISTENT"), false, got)).equals("x") && set.equals(got) && got.getVersion() == 1;
        });
        check("empty is not null", () -> { zk.setData(at("/PERSISTENT"), new byte[0], -1); return zk.getData(at("/PERSISTENT"), false, null).length == 0; });
        check("errors", () ->
            throwing(KeeperException.Code.NONODE, () -> zk.getData(at("/nope"), false, null))
            && throwing(KeeperException.Code.NODEEXISTS, () -> zk.create(root, X, OPEN, CreateMode.PERSISTENT))
            && throwing(KeeperException.Code.BADVERSION, () -> zk.setData(root, X, 9))
            && throwing(KeeperException.Code.NOTEMPTY, () -> { zk.delete(root, -1); return null; })
            && throwing(KeeperException.Code.NOCHILDRENFOREPHEMERALS, () -> zk.create(at("/EPHEMERAL/x"), X, OPEN, CreateMode.PERSISTENT))
            && throwing(KeeperException.Code.INVALIDACL, () -> zk.create(at("/bad"), X, java.util.Arrays.asList(new ACL(31, new Id("nope", "x"))), CreateMode.PERSISTENT)));
        check("children", () -> {
            Stat stat = new Stat();
            List<String> names = zk.getChildren(root, false, stat);
            return names.size() == CreateMode.values().length && stat.getNumChildren() == names.size() && zk.getChildren(root, false).size() == names.size()
                && zk.getAllChildrenNumber(root) == names.size();
        });
        check("ephemerals", () -> zk.getEphemerals().size() >= 2 && zk.getEphemerals(root).size() == 2 && other.getEphemerals(root).isEmpty());
        check("permissions", () -> {
            ZooKeeper owner = client(hosts, 0);
            owner.addAuthInfo("digest", "u:p".getBytes());
            owner.create(at("/private"), X, ZooDefs.Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
            other.sync(at("/private"));
            boolean refused = throwing(KeeperException.Code.NOAUTH, () -> other.getData(at("/private"), false, null));
            Stat stat = new Stat();
            String id = owner.getACL(at("/private"), stat).get(0).getId().getId();
            boolean who = owner.whoAmI().stream().anyMatch(info -> info.getAuthScheme().equals("digest") && info.getUser().equals("u"));
            boolean set = owner.setACL(at("/private"), OPEN, stat.getAversion()).getAversion() == 1;
            owner.close();
            other.sync(at("/private"));
            return refused && id.startsWith("u:") && who && set && new String(other.getData(at("/private"), false, null)).equals("x");
        });
        check("multi", () -> {
            List<OpResult> results = zk.multi(List.of(
                Op.create(at("/m"), X, OPEN, CreateMode.PERSISTENT), Op.create(at("/m/s-"), X, OPEN, CreateMode.PERSISTENT_SEQUENTIAL.toFlag()),
                Op.create(at("/m/t"), X, OPEN, CreateMode.PERSISTENT_WITH_TTL, 5000), Op.create(at("/m/c"), X, OPEN, CreateMode.CONTAINER),
                Op.setData(at("/m"), "y".getBytes(), 0), Op.check(at("/m"), 1), Op.delete(at("/m/t"), -1)));
            return results.size() == 7 && ((OpResult.CreateResult) results.get(1)).getPath().equals(at("/m/s-0000000000"))
                && ((OpResult.SetDataResult) results.get(4)).getStat().getVersion() == 1 && results.get(6) instanceof OpResult.DeleteResult;
        });
        check("multi that fails", () -> {
            try {
                zk.multi(List.of(Op.create(at("/never"), X, OPEN, CreateMode.PERSISTENT), Op.check(root, 99), Op.delete(at("/m"), -1)));
                return false;
            } catch (KeeperException.BadVersionException expected) {
                List<OpResult> results = expected.getResults();
                return ((OpResult.ErrorResult) results.get(0)).getErr() == 0 && ((OpResult.ErrorResult) results.get(1)).getErr() == -103
                    && ((OpResult.ErrorResult) results.get(2)).getErr() == -2 && zk.exists(at("/never"), false) == null;
            }
        });
        check("transaction", () -> zk.transaction().create(at("/tx"), X, OPEN, CreateMode.PERSISTENT).setData(at("/tx"), X, 0).check(at("/tx"), 1).delete(at("/tx"), 1).commit().size() == 4);
        check("several reads", () -> {
            List<OpResult> results = zk.multi(List.of(Op.getData(at("/m")), Op.getChildren(at("/m")), Op.getData(at("/nope"))));
            return new String(((OpResult.GetDataResult) results.get(0)).getData()).equals("y") && ((OpResult.GetChildrenResult) results.get(1)).getChildren().size() == 2
                && ((OpResult.ErrorResult) results.get(2)).getErr() == -101;
        });
        check("watches fire and are removed", () -> {
            Seen once = new Seen(), stays = new Seen();
            zk.getData(at("/m"), once, null);
            zk.addWatch(at("/m"), stays, AddWatchMode.PERSISTENT);
            zk.setData(at("/m"), X, -1);
            zk.setData(at("/m"), X, -1);
            boolean told = once.is("NodeDataChanged " + at("/m")) && stays.is("NodeDataChanged " + at("/m")) && stays.is("NodeDataChanged " + at("/m"));
            zk.removeWatches(at("/m"), stays, WatcherType.Any, false);
            boolean removed = stays.is("PersistentWatchRemoved " + at("/m"));
            zk.exists(at("/m"), once);
            zk.removeAllWatches(at("/m"), WatcherType.Data, false);
            boolean all = once.is("DataWatchRemoved " + at("/m"));
            return told && removed && all && throwing(KeeperException.Code.NOWATCHER, () -> { zk.removeAllWatches(at("/m"), WatcherType.Any, false); return null; });
        });
        check("an event comes before the reply that shows its change", () -> {
            List<String> order = java.util.Collections.synchronizedList(new ArrayList<>());
            CountDownLatch told = new CountDownLatch(2);
            zk.getData(at("/m"), event -> { order.add("event"); told.countDown(); }, null);
            zk.setData(at("/m"), X, -1, (code, path, context, stat) -> { order.add("reply"); told.countDown(); }, null);
            told.await(180, TimeUnit.SECONDS);
            return order.equals(List.of("event", "reply"));
        });
        check("the configuration", () -> zk.getConfig(false, new Stat()) != null);
        check("reconfig is off", () -> {
            ZooKeeperAdmin admin = new ZooKeeperAdmin(hosts, 10_000, event -> { });
            try {
                forSure(() -> admin.reconfigure((String) null, "9", null, -1, new Stat()));
                return false;
            } catch (KeeperException.ReconfigDisabledException expected) {
                return true;
            } finally {
                admin.close();
            }
        });
        check("a root of its own", () -> {
            ZooKeeper within = client(hosts + root, 0);
            within.sync("/");
            boolean there = within.exists("/m", false) != null && within.create("/inside", X, OPEN, CreateMode.EPHEMERAL).equals("/inside");
            Seen seen = new Seen();
            within.exists("/inside", seen);
            within.delete("/inside", -1);
            there = there && seen.is("NodeDeleted /inside");
            within.close();
            return there;
        });
        check("a session is taken over", () -> {
            ZooKeeper first = client(hosts, 0);
            first.create(at("/moving"), X, OPEN, CreateMode.EPHEMERAL);
            Seen states = new Seen();
            ZooKeeper second = new ZooKeeper(hosts, 10_000, states, first.getSessionId(), first.getSessionPasswd());
            boolean same = forSure(() -> second.exists(at("/moving"), false)).getEphemeralOwner() == first.getSessionId();
            second.close();
            first.close();
            zk.sync(root);
            return same && zk.exists(at("/moving"), false) == null;
        });
        check("a wrong password is an expired session", () -> {
            BlockingQueue<String> states = new LinkedBlockingQueue<>();
            ZooKeeper thief = new ZooKeeper(hosts, 10_000, event -> states.add(event.getState().toString()), other.getSessionId(), new byte[16]);
            boolean expired = "Expired".equals(states.poll(180, TimeUnit.SECONDS));
            thief.close();
            return expired && other.exists(root, false) != null;
        });
        check("nothing is waited for", Whole::asynchronous);
        check("all below, at once", () -> {
            List<String> below = ZKUtil.listSubTreeBFS(zk, at("/m"));
            return below.size() == 3 && ZKUtil.deleteRecursive(zk, at("/m"), 100) && zk.exists(at("/m"), false) == null;
        });
        check("sync", () -> { zk.sync(root); return zk.getState() == ZooKeeper.States.CONNECTED && zk.getSessionTimeout() == 10_000; });
    }

    static boolean asynchronous() throws Exception {
        BlockingQueue<String> said = new LinkedBlockingQueue<>();
        String path = at("/async");
        zk.create(path, X, OPEN, CreateMode.PERSISTENT, (code, at, context, name) -> said.add("create " + code), null);
        zk.create(path + "/2", X, OPEN, CreateMode.PERSISTENT, (code, at, context, name, stat) -> said.add("create2 " + code + stat.getVersion()), null);
        zk.create(path + "/t", X, OPEN, CreateMode.PERSISTENT_WITH_TTL, (code, at, context, name, stat) -> said.add("ttl " + code), null, 60_000);
        zk.setData(path, X, 0, (code, at, context, stat) -> said.add("set " + code + stat.getVersion()), null);
        zk.getData(path, false, (code, at, context, data, stat) -> said.add("get " + code + new String(data)), null);
        zk.exists(path, false, (code, at, context, stat) -> said.add("exists " + code), null);
        zk.exists(path + "/nope", false, (code, at, context, stat) -> said.add("exists " + code), null);
        zk.getChildren(path, false, (code, at, context, names) -> said.add("children " + code + names.size()), null);
        zk.getChildren(path, false, (code, at, context, names, stat) -> said.add("children2 " + code + stat.getNumChildren()), null);
        zk.getAllChildrenNumber(path, (code, at, context, number) -> said.add("number " + code + number), null);
        zk.getEphemerals(path, (code, context, paths) -> said.add("ephemerals " + code + paths.size()), null);
        zk.getACL(path, new Stat(), (code, at, context, acl, stat) -> said.add("acl " + code + acl.size()), null);
        zk.setACL(path, OPEN, 0, (code, at, context, stat) -> said.add("set acl " + code + stat.getAversion()), null);
        zk.addWatch(path, event -> { }, AddWatchMode.PERSISTENT, (code, at, context) -> said.add("watch " + code), null);
        zk.removeAllWatches(path, WatcherType.Any, false, (code, at, context) -> said.add("unwatch " + code), null);
        zk.sync(path, (code, at, context) -> said.add("sync " + code), null);
        zk.multi(List.of(Op.check(path, 1), Op.delete(path + "/2", -1)), (code, at, context, results) -> said.add("multi " + code + results.size()), null);
        zk.delete(path + "/t", -1, (code, at, context) -> said.add("delete " + code), null);
        zk.delete(path, 7, (code, at, context) -> said.add("delete " + code), null);
        List<String> wanted = List.of("create 0", "create2 00", "ttl 0", "set 01", "get 0x", "exists 0", "exists -101", "children 02", "children2 02",
            "number 02", "ephemerals 00", "acl 01", "set acl 01", "watch 0", "unwatch 0", "sync 0", "multi 02", "delete 0", "delete -103");
        for (String each : wanted) {
            String next = said.poll(180, TimeUnit.SECONDS);
            if (!each.equals(next)) {
                say("wanted " + each + ", was told " + next);
                return false;
            }
        }
        return true;
    }

    // -- what it stands on --------------------------------------------------------------------------------

    static class Seen implements Watcher {
        final BlockingQueue<String> events = new LinkedBlockingQueue<>();

        public void process(WatchedEvent event) {
            if (event.getType() != Event.EventType.None) events.add(event.getType() + " " + event.getPath());
        }

        boolean is(String wanted) throws Exception {
            String next = events.poll(180, TimeUnit.SECONDS);
            if (!wanted.equals(next)) say("wanted " + wanted + ", was told " + next);
            return wanted.equals(next);
        }
    }

    /** Whose server is `leader`, unless that is 0: the first byte of a session's id says who made it. */
    static ZooKeeper client(String hosts, long leader) throws Exception {
        while (true) {
            CountDownLatch connected = new CountDownLatch(1);
            ZooKeeper made = new ZooKeeper(hosts, 10_000, event -> connected.countDown());
            if (!connected.await(180, TimeUnit.SECONDS)) throw new IllegalStateException("no connection");
            if (leader == 0 || made.getSessionId() >>> 56 == leader) return made;
            made.close();
        }
    }

    static <T> T forSure(Callable<T> work) throws Exception {
        while (true) {
            try {
                return work.call();
            } catch (KeeperException.ConnectionLossException lost) {
                Thread.sleep(50);
            } catch (KeeperException.NodeExistsException | KeeperException.NoNodeException done) {
                return null;
            }
        }
    }

    static boolean throwing(KeeperException.Code wanted, Callable<?> work) throws Exception {
        try {
            work.call();
            return false;
        } catch (KeeperException thrown) {
            return thrown.code() == wanted;
        }
    }

    static String at(String path) { return root + path; }

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
