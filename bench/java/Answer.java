import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;

/** What a command found, as a line of flat JSON. The processor time of this process is counted from its making on. */
class Answer {
    final Map<String, String> fields = new LinkedHashMap<>();
    private final long cpuBefore = cpuNanos();

    Answer with(String name, long value) {
        fields.put(name, Long.toString(value));
        return this;
    }

    Answer with(String name, double value) {
        fields.put(name, String.format(Locale.ROOT, "%.6f", value));
        return this;
    }

    Answer with(String name, double[] values) {
        fields.put(name, Arrays.stream(values).mapToObj(each -> String.format(Locale.ROOT, "%.4f", each))
            .collect(Collectors.joining(", ", "[", "]")));
        return this;
    }

    Answer took(long operations, long nanos, long[] times) {
        long[] all = times.clone();
        Arrays.sort(all);
        with("operations", operations).with("seconds", nanos / 1e9).with("client_cpu_s", (cpuNanos() - cpuBefore) / 1e9);
        return with("p50_ms", all[all.length / 2] / 1e6).with("p99_ms", all[all.length * 99 / 100] / 1e6)
            .with("max_ms", all[all.length - 1] / 1e6);
    }

    static long cpuNanos() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    @Override
    public String toString() {
        return fields.entrySet().stream().map(each -> "\"" + each.getKey() + "\": " + each.getValue())
            .collect(Collectors.joining(", ", "{", "}"));
    }
}
