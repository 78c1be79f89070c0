import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;

/** Reads values of sasl.jaas.config as Kafka's clients do: a line of base64 each; module, keys and values come back, "!" for a refusal. */
public final class JaasOracle {
    private static String encode(String text) {
        return "=" + Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }

    private static String answer(String text) {
        try {
            List<AppConfigurationEntry> entries =
                JaasContext.loadClientContext(Map.of("sasl.jaas.config", new Password(text))).configurationEntries();
            List<String> words = new ArrayList<>();
            words.add(encode(entries.get(0).getLoginModuleName()));
            for (Map.Entry<String, ?> option : new TreeMap<String, Object>(entries.get(0).getOptions()).entrySet()) {
                words.add(encode(String.valueOf(option.getKey())));
                words.add(encode(String.valueOf(option.getValue())));
            }
            return String.join(" ", words);
        } catch (RuntimeException refused) {
            return "!";
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(answer(new String(Base64.getDecoder().decode(line.substring(1)), StandardCharsets.UTF_8)));
            System.out.flush();
        }
    }
}
