import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Properties;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Reads text as Java does: each line is what to do and its arguments in base64; so are the answers, "!" for a refusal. */
public class TextOracle {
    private static String decode(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }

    private static String encode(String text) {
        return "=" + Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }

    private static List<String> answers(String asked, List<String> given) throws Exception {
        String text = given.get(0);
        switch (asked) {
            case "int": return List.of("" + Integer.parseInt(text));
            case "long": return List.of("" + Long.parseLong(text));
            case "short": return List.of("" + Short.parseShort(text));
            case "double": return List.of(Long.toHexString(Double.doubleToLongBits(Double.parseDouble(text))));
            case "double-text": return List.of(Double.toString(Double.parseDouble(text)));
            case "trim": return List.of(text.trim());
            case "boolean": return List.of("" + Boolean.parseBoolean(text));
            case "ignore-case": return List.of("" + text.equalsIgnoreCase(given.get(1)));
            case "split": return List.of(text.split(Pattern.quote(given.get(1))));
            case "lines": {
                List<String> lines = new ArrayList<>();
                BufferedReader reader = new BufferedReader(new StringReader(text));
                for (String line = reader.readLine(); line != null; line = reader.readLine()) lines.add(line);
                return lines;
            }
            case "properties": {
                Properties properties = new Properties();
                properties.load(new StringReader(text));
                List<String> pairs = new ArrayList<>();
                new TreeMap<>(properties).forEach((key, value) -> {
                    pairs.add((String) key);
                    pairs.add((String) value);
                });
                return pairs;
            }
            case "matches": {
                Pattern pattern = Pattern.compile(text);
                List<String> found = new ArrayList<>();
                for (String each : given.subList(1, given.size())) {
                    Matcher matcher = pattern.matcher(each);
                    found.add("" + matcher.matches());
                }
                return found;
            }
            case "split-by": return List.of(Pattern.compile(text).split(given.get(1)));
            default: throw new AssertionError(asked);
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            List<String> given = new ArrayList<>();
            for (int i = 1; i < words.length; i++) given.add(decode(words[i].substring(1)));
            StringBuilder answer = new StringBuilder("+");
            try {
                for (String each : answers(words[0], given)) answer.append(' ').append(encode(each));
            } catch (RuntimeException | StackOverflowError refused) {
                answer = new StringBuilder("!");
            }
            System.out.println(answer);
            System.out.flush();
        }
    }
}
