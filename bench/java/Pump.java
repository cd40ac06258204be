import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.ZooKeeper;

/** Keeps so many requests under way on one connection: each answer sends the next. */
class Pump {
    interface Issue {
        /** Sends request `number`; the code of its answer goes to `pump`. */
        void issue(Pump pump, int number) throws Exception;
    }

    final ZooKeeper zk;
    final int place;
    final int count;
    final Issue issue;
    final long[] times;
    final AtomicInteger issued = new AtomicInteger();
    final AtomicInteger answered = new AtomicInteger();
    final CountDownLatch done = new CountDownLatch(1);
    volatile String failure;

    /** `place`: where in the tree it works. */
    Pump(ZooKeeper zk, int place, int count, Issue issue) {
        this.zk = zk;
        this.place = place;
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
            issue.issue(this, number);
        } catch (Exception e) {
            fail(e.toString());
        }
    }

    void answer(int number, int code) {
        times[number] = System.nanoTime() - times[number];
        if (code != Code.OK.intValue()) {
            fail("request " + number + " at place " + place + ": " + Code.get(code));
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

    /** All at once; but with one outstanding, one after the other: then there is one request in the whole ensemble. */
    static Answer run(List<Pump> pumps, int outstanding, int patienceS) throws Exception {
        Answer answer = new Answer();
        long began = System.nanoTime();
        long until = began + patienceS * 1_000_000_000L;
        if (outstanding > 1) {
            for (Pump pump : pumps) {
                pump.start(outstanding);
            }
        }
        for (Pump pump : pumps) {
            if (outstanding == 1) {
                pump.start(1);
            }
            if (!pump.done.await(until - System.nanoTime(), TimeUnit.NANOSECONDS)) {
                pump.fail("given up");
                throw new IllegalStateException(
                    "only " + pump.answered + " of " + pump.count + " answers after " + patienceS + " s");
            }
            if (pump.failure != null) {
                throw new IllegalStateException(pump.failure);
            }
        }
        long[] times = pumps.stream().flatMapToLong(pump -> Arrays.stream(pump.times)).toArray();
        return answer.took(times.length, System.nanoTime() - began, times);
    }
}
