import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.security.PasswordEncoder;

/**
 * Kafka's encoder of stored passwords, in base64 both ways: "encode SECRET PASSWORD DERIVATION BITS ITERATIONS", where
 * DERIVATION may be empty, and "decode SECRET TEXT". "!" and the class of the error where there is no answer.
 */
public class PasswordOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        String line;
        while ((line = questions.readLine()) != null) {
            answers.println(answer(line.split(" ", -1)));
        }
    }

    private static String answer(String[] words) {
        try {
            boolean encodes = words[0].equals("encode");
            String derivation = encodes && !words[3].isEmpty() ? words[3] : null;
            int bits = encodes ? Integer.parseInt(words[4]) : 128;
            int iterations = encodes ? Integer.parseInt(words[5]) : 4096;
            PasswordEncoder encoder = PasswordEncoder.encrypting(
                new Password(text(words[1])), derivation, "AES/CBC/PKCS5Padding", bits, iterations);
            String answer = encodes ? encoder.encode(new Password(text(words[2]))) : encoder.decode(text(words[2])).value();
            return "=" + Base64.getEncoder().encodeToString(answer.getBytes(StandardCharsets.UTF_8));
        } catch (Exception error) {
            return "!" + error.getClass().getSimpleName();
        }
    }

    private static String text(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }
}
