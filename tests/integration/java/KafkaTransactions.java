import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Producers, a reader and an administrator of Kafka's own: what each finds, line by line. */
public class KafkaTransactions {
    static final List<TopicPartition> WHERES = List.of(new TopicPartition("t", 0), new TopicPartition("t", 1));
    static String hosts;

    public static void main(String[] arguments) throws Exception {
        hosts = arguments[0];
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", hosts))) {
            admin.createTopics(List.of(new NewTopic("t", 2, (short) 1))).all().get();
            fromBeginToEnd();
            looking(admin);
            hanging(admin);
            fencing(admin);
            say("read " + read());
        }
    }

    static void fromBeginToEnd() throws Exception {
        KafkaProducer<String, String> first = producer("java");
        first.beginTransaction();
        write(first, "a0", "a1");
        first.sendOffsetsToTransaction(Map.of(WHERES.get(0), new OffsetAndMetadata(7, "seven")), new ConsumerGroupMetadata("g"));
        first.commitTransaction();
        say("committed " + committed());
        first.beginTransaction();
        write(first, "b0", "b1");
        first.sendOffsetsToTransaction(Map.of(WHERES.get(0), new OffsetAndMetadata(8)), new ConsumerGroupMetadata("g"));
        first.flush();
        first.abortTransaction();
        say("committed " + committed());
        first.beginTransaction();
        write(first, "c0", "c1");
        first.flush();
        KafkaProducer<String, String> second = producer("java");
        second.beginTransaction();
        write(second, "d0", "d1");
        try {
            first.commitTransaction();
            say("the first one was not fenced");
        } catch (ProducerFencedException error) {
            say("fenced");
        }
        first.close(Duration.ZERO);
        second.commitTransaction();
        second.close();
    }

    static void looking(Admin admin) throws Exception {
        KafkaProducer<String, String> open = producer("open");
        open.beginTransaction();
        write(open, "e0");
        open.flush();
        Set<String> listed = new TreeSet<>();
        admin.listTransactions().all().get().forEach(each -> listed.add(each.transactionalId() + " " + each.state()));
        say("listed " + listed);
        TransactionDescription found = admin.describeTransactions(List.of("open")).description("open").get();
        say("described " + found.state() + " " + found.topicPartitions() + " " + found.transactionTimeoutMs()
            + " " + found.transactionStartTimeMs().isPresent());
        open.commitTransaction();
        open.close();
    }

    /** As if the coordinator had forgotten it: the end is written by the administrator. */
    static void hanging(Admin admin) throws Exception {
        KafkaProducer<String, String> hangs = producer("hangs");
        hangs.beginTransaction();
        write(hangs, "f0");
        hangs.flush();
        ProducerState state = active(admin).get(0);
        long start = state.currentTransactionStartOffset().getAsLong();
        say("active since " + start);
        admin.abortTransaction(new AbortTransactionSpec(WHERES.get(0), state.producerId(), (short) state.producerEpoch(),
            Math.max(state.coordinatorEpoch().orElse(0), 0))).all().get();
        say("active " + active(admin).size());
        hangs.close(Duration.ZERO);
    }

    static void fencing(Admin admin) throws Exception {
        KafkaProducer<String, String> fenced = producer("fenced");
        fenced.beginTransaction();
        write(fenced, "g0", "g1");
        fenced.flush();
        admin.fenceProducers(List.of("fenced")).all().get();
        try {
            fenced.commitTransaction();
            say("it was not fenced");
        } catch (ProducerFencedException error) {
            say("fenced by the administrator");
        }
        fenced.close(Duration.ZERO);
    }

    static List<ProducerState> active(Admin admin) throws Exception {
        List<ProducerState> found = new ArrayList<>();
        for (ProducerState each : admin.describeProducers(WHERES).all().get().get(WHERES.get(0)).activeProducers())
            if (each.currentTransactionStartOffset().isPresent())
                found.add(each);
        return found;
    }

    static KafkaProducer<String, String> producer(String name) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", hosts, "transactional.id", name));
        KafkaProducer<String, String> made = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        made.initTransactions();
        return made;
    }

    static void write(KafkaProducer<String, String> to, String... values) {
        for (int place = 0; place < values.length; place++)
            to.send(new ProducerRecord<>("t", place, null, values[place]));
    }

    static KafkaConsumer<String, String> consumer() {
        Map<String, Object> settings = Map.of("bootstrap.servers", hosts, "group.id", "g", "isolation.level", "read_committed",
            "auto.offset.reset", "earliest", "enable.auto.commit", "false");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    static String committed() {
        try (KafkaConsumer<String, String> reader = consumer()) {
            OffsetAndMetadata found = reader.committed(Set.copyOf(WHERES)).get(WHERES.get(0));
            return found.offset() + " " + found.metadata();
        }
    }

    static Set<String> read() {
        Set<String> found = new TreeSet<>();
        try (KafkaConsumer<String, String> reader = consumer()) {
            reader.assign(WHERES);
            reader.seekToBeginning(WHERES);
            Map<TopicPartition, Long> ends = reader.endOffsets(WHERES);
            while (ends.entrySet().stream().anyMatch(end -> reader.position(end.getKey()) < end.getValue()))
                reader.poll(Duration.ofMillis(100)).forEach(each -> found.add(each.value()));
        }
        return found;
    }

    static void say(String line) {
        System.out.println(line);
    }
}
