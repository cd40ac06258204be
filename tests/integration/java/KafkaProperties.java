import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import kafka.server.KafkaConfig;

/** Reads lines of key=value; says of each whether a broker of Apache Kafka would start with it. */
public class KafkaProperties {
    public static void main(String[] args) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            int at = line.indexOf('=');
            var said = new Properties();
            said.setProperty("zookeeper.connect", "h:2181");
            said.setProperty(line.substring(0, at), line.substring(at + 1));
            String why = "";
            try {
                KafkaConfig.fromProps(said, false);
            } catch (Throwable error) {
                why = String.valueOf(error.getMessage()).replace('\n', ' ');
            }
            System.out.println(line + "\t" + why);
        }
    }
}
