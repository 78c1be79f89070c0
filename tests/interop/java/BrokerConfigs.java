import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Properties;
import kafka.server.KafkaConfig;

/**
 * What a broker makes of its server.properties: a line is the file in base64, the answer "ok", or the refusal in base64.
 */
public final class BrokerConfigs {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8)));
        }
    }

    private static String answer(String text) throws Exception {
        Properties properties = new Properties();
        properties.load(new StringReader(text));
        try {
            KafkaConfig.fromProps(properties, false);
            return "ok";
        } catch (Throwable refusal) {
            String said = refusal.getClass().getSimpleName() + ": " + refusal.getMessage();
            return Base64.getEncoder().encodeToString(said.getBytes(StandardCharsets.UTF_8));
        }
    }
}
