package vectors;

import java.nio.charset.StandardCharsets;
import java.util.Random;
import org.apache.kafka.common.Uuid;

/**
 * Values of fields, by style. Long texts and bytes are slices of one block, so that files of them
 * compress; their lengths lie around what a varint of one byte holds (127, 128).
 */
final class Values {
    private static final int[] LENGTHS = {0, 1, 2, 5, 12, 40, 126, 127, 128, 300};
    private static final String[] SHORT = {"", "a", "orders", "grüße", "名前", "😀", "a.b-c_d", "__x",
        "\u0000\n\"\\"};
    private static final byte[] BLOCK = new byte[1024];
    private static final String TEXT;
    private static final long[] POOL = new long[32];

    static {
        Random random = new Random(673);
        random.nextBytes(BLOCK);
        for (int i = 0; i < POOL.length; i++) {
            POOL[i] = random.nextLong();
        }
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < 1024; i++) {
            text.append((char) ('a' + random.nextInt(26)));
        }
        TEXT = text.toString();
    }

    private final Random random;
    private final Style style;

    Values(Random random, Style style) {
        this.random = random;
        this.style = style;
    }

    Style style() {
        return style;
    }

    /** Whether something of this probability in random vectors happens here. */
    boolean happens(double probability) {
        return random.nextDouble() < probability;
    }

    int upTo(int highest) {
        return random.nextInt(highest + 1);
    }

    /** An integer from lowest to highest, both of which turn up often. */
    long integer(long lowest, long highest) {
        if (style.isEmpty()) {
            return random.nextBoolean() ? 0 : lowest;
        }
        int choice = random.nextInt(style == Style.LIMITS ? 2 : 8);
        switch (choice) {
            case 0:
                return highest;
            case 1:
                return lowest;
            case 2:
            case 3:
                return fold(random.nextInt(120), lowest, highest);
            default:
                return fold(POOL[random.nextInt(POOL.length)], lowest, highest);
        }
    }

    private static long fold(long value, long lowest, long highest) {
        long span = highest - lowest + 1;
        return span <= 0 ? value : lowest == 0 ? Math.floorMod(value, span)
            : Math.floorMod(value - lowest, span) + lowest;
    }

    double real() {
        double[] some = {0.0, -0.0, 1.5, -2.25, Double.MAX_VALUE, Double.MIN_VALUE, 1e-7, 123456789.125};
        return style.isEmpty() ? 0.0 : some[random.nextInt(some.length)];
    }

    boolean truth() {
        return style == Style.FULL || !style.isEmpty() && random.nextBoolean();
    }

    String text() {
        if (style.isEmpty()) {
            return "";
        }
        if (style != Style.LIMITS && random.nextInt(4) > 0) {
            int from = style == Style.FULL ? 1 : 0;
            return SHORT[from + random.nextInt(SHORT.length - from)];
        }
        int length = length();
        int start = random.nextInt(16) * 32;
        String text = TEXT.substring(start, start + length);
        // A letter of two bytes: the length in bytes is not the length in characters.
        return length > 2 && random.nextInt(4) == 0 ? text.substring(2) + "é" : text;
    }

    byte[] bytes() {
        int length = style.isEmpty() ? 0 : length();
        int start = random.nextInt(16) * 48;
        return java.util.Arrays.copyOfRange(BLOCK, start, start + length);
    }

    Uuid uuid() {
        if (style.isEmpty()) {
            return Uuid.ZERO_UUID;
        }
        if (style == Style.LIMITS && random.nextInt(3) == 0) {
            return new Uuid(-1L, -1L);
        }
        return new Uuid(POOL[random.nextInt(POOL.length)], POOL[random.nextInt(POOL.length)]);
    }

    private int length() {
        int from = switch (style) {
            case LIMITS -> LENGTHS.length - 4;
            case FULL -> 1;
            default -> 0;
        };
        return LENGTHS[from + random.nextInt(LENGTHS.length - from)];
    }

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
