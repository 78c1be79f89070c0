import java.lang.reflect.Field;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.AbstractResponse;
import sun.misc.Unsafe;

/**
 * For which versions Kafka's own clients keep to the throttle time of an answer: "api-key version..." a line, for every API.
 */
public final class ThrottledApis {
    public static void main(String[] args) throws Exception {
        Field field = Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        Unsafe unsafe = (Unsafe) field.get(null);
        for (ApiKeys api : ApiKeys.values()) {
            // What is asked depends on the version alone, so an answer without content will do.
            AbstractResponse answer = (AbstractResponse) unsafe.allocateInstance(responseOf(api));
            StringBuilder line = new StringBuilder().append(api.id);
            for (short version = api.oldestVersion(); version <= api.latestVersion(true); version++) {
                if (answer.shouldClientThrottle(version)) {
                    line.append(" ").append(version);
                }
            }
            System.out.println(line);
        }
    }

    private static Class<?> responseOf(ApiKeys api) throws ClassNotFoundException {
        String name = "org.apache.kafka.common.requests." + api.messageType.name;
        try {
            return Class.forName(name + "Response");
        } catch (ClassNotFoundException e) {
            return Class.forName(name.replace("OffsetFor", "OffsetsFor") + "Response");
        }
    }
}
