import org.apache.kafka.common.protocol.ApiKeys;

/** The versions of requests that Kafka calls deprecated, a line for each request that has any: its key and its versions. */
public final class DeprecatedVersions {
    public static void main(String[] args) {
        for (ApiKeys key : ApiKeys.values()) {
            StringBuilder versions = new StringBuilder();
            for (short version = key.oldestVersion(); version <= key.latestVersion(); version++) {
                if (key.isVersionDeprecated(version)) {
                    versions.append(' ').append(version);
                }
            }
            if (versions.length() > 0) {
                System.out.println(key.id + versions.toString());
            }
        }
    }
}
