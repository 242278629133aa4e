package vectors;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Random;
import java.util.TreeSet;
import java.util.jar.JarFile;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.types.RawTaggedField;

/**
 * Writes vectors of every message that this release of kafka-clients can write, in each version, to
 * standard output: a JSON object a line. The same release gives the same lines, always.
 */
public final class Main {
    private static final Pattern CONVERTER =
        Pattern.compile("(org/apache/kafka/common/message/\\w+)JsonConverter\\.class");
    private static final HexFormat HEX = HexFormat.of();

    private Main() {}

    public static void main(String[] arguments) throws IOException, ReflectiveOperationException {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String name : messageClasses()) {
            Class<?> type = Class.forName(name);
            Message sample = (Message) type.getDeclaredConstructor().newInstance();
            for (int version = sample.lowestSupportedVersion();
                    version <= sample.highestSupportedVersion(); version++) {
                for (Style style : Style.values()) {
                    out.print(vector(type, (short) version, style));
                    out.print('\n');
                }
            }
        }
        out.flush();
    }

    private static TreeSet<String> messageClasses() throws IOException {
        TreeSet<String> names = new TreeSet<>();
        String jar = Message.class.getProtectionDomain().getCodeSource().getLocation().getPath();
        try (JarFile file = new JarFile(jar)) {
            file.stream().forEach(entry -> {
                Matcher found = CONVERTER.matcher(entry.getName());
                if (found.matches()) {
                    names.add(found.group(1).replace('/', '.'));
                }
            });
        }
        return names;
    }

    private static ObjectNode vector(Class<?> type, short version, Style style)
            throws ReflectiveOperationException, IOException {
        String name = type.getSimpleName();
        Random random = new Random((name + " " + version + " " + style).hashCode() * 31L + 10);
        Maker maker = new Maker(new Values(random, style), version);
        Message message = maker.make(type);
        byte[] bytes = Shape.write(message, version);
        Method write = Class.forName(type.getName() + "JsonConverter")
            .getMethod("write", type, short.class, boolean.class);
        ObjectNode line = new ObjectMapper().createObjectNode();
        line.put("name", messageName(name));
        if (message instanceof ApiMessage && ((ApiMessage) message).apiKey() >= 0) {
            line.put("api_key", ((ApiMessage) message).apiKey());
        }
        line.put("version", version);
        line.put("bytes", HEX.formatHex(bytes));
        line.set("json", (JsonNode) write.invoke(null, message, version, false));
        if (!maker.records().isEmpty()) {
            ArrayNode records = line.putArray("records");
            maker.records().forEach(content -> records.add(HEX.formatHex(content)));
        }
        if (!maker.tags().isEmpty()) {
            ArrayNode tags = line.putArray("unknown_tags");
            for (RawTaggedField tag : maker.tags()) {
                tags.addArray().add(tag.tag()).add(HEX.formatHex(tag.data()));
            }
        }
        return line;
    }

    /** As in the definition: classes of requests, responses and headers have "Data" behind it. */
    private static String messageName(String name) {
        return name.matches("\\w+(Request|Response|Header)Data") ? name.substring(0, name.length() - 4) : name;
    }
}
