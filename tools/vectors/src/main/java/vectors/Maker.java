package vectors;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.types.RawTaggedField;

/** Makes messages, and keeps what Kafka's JSON leaves out of them: records and unknown tags. */
final class Maker {
    private static final int FIRST_UNKNOWN_TAG = 60;
    /** Elements of an array at the top of a message, at most; arrays inside have fewer. */
    private static final int WIDEST = 3;

    private final Values values;
    private final short version;
    private final List<byte[]> records = new ArrayList<>();
    private final List<RawTaggedField> tags = new ArrayList<>();
    private final int firstTurn;
    private final Map<Slot, Integer> turns = new IdentityHashMap<>();

    Maker(Values values, short version) {
        this.values = values;
        this.version = version;
        this.firstTurn = values.style() == Style.HOLLOWER ? 2 : 1;
    }

    /** The contents of records fields, in the order of the message. */
    List<byte[]> records() {
        return records;
    }

    /** The unknown tags of all structs. */
    List<RawTaggedField> tags() {
        return tags;
    }

    Message make(Class<?> type) throws ReflectiveOperationException {
        return make(type, WIDEST);
    }

    private Message make(Class<?> type, int most) throws ReflectiveOperationException {
        Message made = (Message) type.getDeclaredConstructor().newInstance();
        Shape shape = Shape.of(type, version);
        for (Shape.Part part : shape.parts()) {
            Slot slot = part.slot();
            int turn = turns.merge(slot, firstTurn, (before, first) -> before + 1);
            if (isLeftAlone(part) && slot.get(made) != null) {
                continue;
            }
            slot.set(made, isNull(part, turn) ? null : value(slot, most, turn));
        }
        boolean isTried = values.style().hasUnknownTags() && (most == WIDEST || values.happens(0.5));
        if (shape.flexible() && isTried) {
            addTags(made.unknownTaggedFields());
        }
        return made;
    }

    /** Whether a field keeps its default. */
    private boolean isLeftAlone(Shape.Part part) {
        Style style = values.style();
        return style != Style.FULL && !style.isHollow() && !part.nullable() && values.happens(0.1);
    }

    private boolean isNull(Shape.Part part, int turn) {
        return part.nullable() && switch (values.style()) {
            case FULL -> false;
            case SPARE -> true;
            case HOLLOW, HOLLOWER -> turn % 3 == (part.slot().holdsStructs() ? 0 : 2);
            default -> values.happens(0.25);
        };
    }

    private void addTags(List<RawTaggedField> target) {
        int count = values.happens(0.05) ? 130 : 1 + values.upTo(2);
        int tag = FIRST_UNKNOWN_TAG;
        for (int i = 0; i < count; i++) {
            tag += 1 + values.upTo(values.happens(0.2) ? 20000 : 40);
            byte[] bytes = count > 100 ? new byte[] {(byte) i} : values.bytes();
            target.add(new RawTaggedField(tag, bytes));
        }
        tags.addAll(target);
    }

    private Object value(Slot slot, int most, int turn) throws ReflectiveOperationException {
        if (slot.element() != null) {
            return collection(slot, most, turn);
        }
        Class<?> type = slot.type();
        if (Message.class.isAssignableFrom(type)) {
            return make(type, most);
        }
        if (isRecords(type)) {
            byte[] bytes = values.bytes();
            records.add(bytes);
            return recordsOf(type, bytes);
        }
        return scalar(type, slot.lowest(), slot.highest());
    }

    private Object collection(Slot slot, int most, int turn) throws ReflectiveOperationException {
        Collection<Object> made = emptyCollection(slot);
        boolean plain = !slot.holdsStructs();
        int count = switch (values.style()) {
            case SPARE -> 0;
            case HOLLOW, HOLLOWER -> plain || turn % 3 != 1 ? 0 : 4;
            case FULL -> Math.max(1, most - 1);
            default -> values.upTo(most);
        };
        if (plain && values.style() == Style.LIMITS && values.happens(0.1)) {
            count = 130;
        }
        for (int i = 0; i < count; i++) {
            made.add(plain ? element(slot.element(), count) : make(slot.element(), Math.max(1, most - 1)));
        }
        return made;
    }

    private Object element(Class<?> type, int count) {
        if (type == String.class && count > 100) {
            return "x";
        }
        if (type == Byte.class) {
            return scalar(byte.class, Byte.MIN_VALUE, Byte.MAX_VALUE);
        }
        if (type == Short.class) {
            return scalar(short.class, Short.MIN_VALUE, Short.MAX_VALUE);
        }
        if (type == Integer.class) {
            return scalar(int.class, Integer.MIN_VALUE, Integer.MAX_VALUE);
        }
        if (type == Long.class) {
            return scalar(long.class, Long.MIN_VALUE, Long.MAX_VALUE);
        }
        return scalar(type, 0, 0);
    }

    private Object scalar(Class<?> type, long lowest, long highest) {
        if (type == boolean.class || type == Boolean.class) {
            return values.truth();
        }
        if (type == double.class || type == Double.class) {
            return values.real();
        }
        if (type == String.class) {
            return values.text();
        }
        if (type == Uuid.class) {
            return values.uuid();
        }
        if (type == byte[].class) {
            return values.bytes();
        }
        if (type == ByteBuffer.class) {
            return ByteBuffer.wrap(values.bytes());
        }
        return sized(type, values.integer(lowest, highest));
    }

    private static Object sized(Class<?> type, long value) {
        if (type == byte.class) {
            return (byte) value;
        }
        if (type == short.class) {
            return (short) value;
        }
        if (type == int.class) {
            return (int) value;
        }
        if (type == long.class) {
            return value;
        }
        throw new IllegalStateException("no values of " + type);
    }

    /** A value of the field that is not its default: writing it shows whether a version has it. */
    static Object sample(Slot slot, Object standard, short version) throws ReflectiveOperationException {
        Class<?> type = slot.type();
        if (type == boolean.class) {
            return !(Boolean) standard;
        }
        if (type == double.class) {
            return 1.0 + (Double) standard;
        }
        if (type.isPrimitive()) {
            return sized(type, ((Number) standard).longValue() == 5 ? 6 : 5);
        }
        if (slot.element() != null) {
            Collection<Object> made = emptyCollection(slot);
            Maker maker = new Maker(new Values(new java.util.Random(1), Style.FULL), version);
            boolean plain = !slot.holdsStructs();
            made.add(plain ? maker.element(slot.element(), 1) : maker.make(slot.element(), 1));
            return made;
        }
        if (Message.class.isAssignableFrom(type)) {
            return new Maker(new Values(new java.util.Random(1), Style.FULL), version).make(type, 1);
        }
        if (type == String.class) {
            return standard + "x";
        }
        return type == Uuid.class ? new Uuid(5, 5) : bytesAs(type, new byte[] {5});
    }

    /** The least value of a field that is no primitive. */
    static Object empty(Slot slot) throws ReflectiveOperationException {
        Class<?> type = slot.type();
        if (slot.element() != null) {
            return emptyCollection(slot);
        }
        if (Message.class.isAssignableFrom(type)) {
            return type.getDeclaredConstructor().newInstance();
        }
        return type == String.class ? "" : bytesAs(type, new byte[0]);
    }

    private static Object bytesAs(Class<?> type, byte[] bytes) throws ReflectiveOperationException {
        if (isRecords(type)) {
            return recordsOf(type, bytes);
        }
        return type == ByteBuffer.class ? ByteBuffer.wrap(bytes) : bytes;
    }

    private static boolean isRecords(Class<?> type) {
        return type.getSimpleName().equals("BaseRecords");
    }

    /** Its package is not the same in all releases. */
    private static Object recordsOf(Class<?> type, byte[] bytes) throws ReflectiveOperationException {
        Class<?> memory = Class.forName(type.getPackageName() + ".MemoryRecords");
        ByteBuffer copy = ByteBuffer.wrap(Arrays.copyOf(bytes, bytes.length));
        return memory.getMethod("readableRecords", ByteBuffer.class).invoke(null, copy);
    }

    @SuppressWarnings("unchecked")
    private static Collection<Object> emptyCollection(Slot slot) throws ReflectiveOperationException {
        return slot.type() == List.class ? new ArrayList<>()
            : (Collection<Object>) slot.type().getDeclaredConstructor().newInstance();
    }
}
