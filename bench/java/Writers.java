import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.IntStream;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.HostProvider;

/**
 * Writers that never give up, one write after the other: the first begins at the first server, the second at the
 * second, and so on, and each goes on to the next when it is cut off. What counts is how long each had to wait.
 */
final class Writers {
    static final int ENOUGH = 100;
    static final int START_S = 60;
    static final long CALM_NANOS = 1_000_000_000L;

    private final List<Writer> writers = new ArrayList<>();

    /** `everyUs`: when each write begins, at the earliest, after the beginning of the one before it. */
    Writers(String[] hosts, int everyUs) throws Exception {
        for (int i = 0; i < hosts.length; i++) {
            writers.add(new Writer(hosts, i, everyUs));
        }
        await(START_S, "does not write", writer -> writer.written >= ENOUGH);
    }

    /** Begin to count from here. */
    Answer again() throws Exception {
        for (Writer writer : writers) {
            writer.again();
        }
        Thread.sleep(CALM_NANOS / 1_000_000);
        return new Answer();
    }

    /** The longest wait of each, when all have written for a second after they were asked; then they end. */
    Answer gaps(int patienceS) throws Exception {
        Answer answer = new Answer();
        long now = System.nanoTime();
        try {
            await(patienceS, "writes no more", writer -> writer.begunOfLast > now + CALM_NANOS);
        } finally {
            for (Writer writer : writers) {
                writer.ended = true;
            }
        }
        for (Writer writer : writers) {
            writer.thread.join(START_S * 1000L);
            writer.zk.close();
        }
        return answer.with("gaps_ms", writers.stream().mapToDouble(writer -> writer.longest / 1e6).toArray())
            .with("writes", writers.stream().mapToLong(writer -> writer.counted).sum());
    }

    interface Condition {
        boolean holds(Writer writer);
    }

    private void await(int patienceS, String otherwise, Condition condition) throws Exception {
        long until = System.nanoTime() + patienceS * 1_000_000_000L;
        for (Writer writer : writers) {
            while (!condition.holds(writer)) {
                if (writer.failure != null || System.nanoTime() > until) {
                    throw new IllegalStateException(
                        "writer " + writer.number + " " + otherwise + (writer.failure == null ? "" : ": " + writer.failure));
                }
                Thread.sleep(10);
            }
        }
    }

    static final class Writer {
        final int number;
        final ZooKeeper zk;
        final Thread thread;
        final String path;
        final long everyNanos;
        volatile long written;
        volatile long counted;
        volatile long longest;
        volatile long begunOfLast;
        volatile boolean ended;
        volatile boolean countsAgain;
        volatile String failure;

        Writer(String[] hosts, int number, int everyUs) throws Exception {
            this.number = number;
            everyNanos = everyUs * 1000L;
            path = "/bench/writer-" + number;
            zk = new ZooKeeper("127.0.0.1:1", Sessions.SESSION_MS, event -> {}, false, new InTurn(hosts, number));
            thread = new Thread(this::write, path);
            thread.setDaemon(true);
            thread.start();
        }

        void again() throws Exception {
            countsAgain = true;
            while (countsAgain && failure == null) {
                Thread.sleep(1);
            }
        }

        private void write() {
            long last = System.nanoTime();
            try {
                while (!ended) {
                    long begun = System.nanoTime();
                    if (!written()) {
                        continue;
                    }
                    long now = System.nanoTime();
                    if (countsAgain) {
                        longest = 0;
                        counted = 0;
                        countsAgain = false;
                    } else {
                        longest = Math.max(longest, now - last);
                    }
                    written++;
                    counted++;
                    begunOfLast = begun;
                    last = now;
                    if (everyNanos > 0) {
                        LockSupport.parkNanos(begun + everyNanos - now);
                    }
                }
            } catch (KeeperException | InterruptedException e) {
                failure = e.toString();
            }
        }

        /** False: nobody knows, it is tried again. */
        private boolean written() throws KeeperException, InterruptedException {
            try {
                zk.setData(path, new byte[128], -1);
                return true;
            } catch (KeeperException.ConnectionLossException e) {
                return false;
            } catch (KeeperException.NoNodeException e) {
                try {
                    zk.create(path, new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
                } catch (KeeperException.ConnectionLossException | KeeperException.NodeExistsException again) {
                    return false;
                }
                return false;
            }
        }
    }

    /** All servers, in their order, from the given one on; the stock provider shuffles them. */
    static final class InTurn implements HostProvider {
        private final List<InetSocketAddress> servers;
        private int tried;
        private int connected;

        InTurn(String[] hosts, int first) {
            servers = IntStream.range(0, hosts.length).mapToObj(i -> hosts[(first + i) % hosts.length].split(":"))
                .map(parts -> new InetSocketAddress(parts[0], Integer.parseInt(parts[1]))).toList();
        }

        @Override
        public synchronized int size() {
            return servers.size();
        }

        @Override
        public synchronized InetSocketAddress next(long spinDelay) {
            if (tried > 0 && tried % servers.size() == 0 && spinDelay > 0) {
                LockSupport.parkNanos(spinDelay * 1_000_000L);  // as the stock provider, when it has tried all of them
            }
            return servers.get((connected + tried++) % servers.size());
        }

        @Override
        public synchronized void onConnected() {
            connected = (connected + tried - 1) % servers.size();
            tried = 1;
        }

        @Override
        public boolean updateServerList(Collection<InetSocketAddress> addresses, InetSocketAddress current) {
            return false;
        }
    }
}
