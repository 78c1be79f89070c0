import java.util.Map;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;

/** The keys of Kafka's clients, a line each: client, key, importance and default, with tabs between. */
public final class ClientConfigs {
    public static void main(String[] args) {
        print("admin", AdminClientConfig.configDef());
        print("consumer", ConsumerConfig.configDef());
        print("producer", ProducerConfig.configDef());
    }

    private static void print(String client, ConfigDef keys) {
        for (Map.Entry<String, ConfigDef.ConfigKey> each : keys.configKeys().entrySet()) {
            ConfigDef.ConfigKey key = each.getValue();
            System.out.println(String.join("\t", client, key.name, key.importance.name().toLowerCase(),
                key.hasDefault() ? String.valueOf(key.defaultValue) : "null"));
        }
    }
}
