package vectors;

import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.RawTaggedField;

/**
 * What a version of a message has: which fields, which of them may be null, whether there are tag
 * sections. Found out by asking Kafka's serializer: it refuses what a version doesn't have.
 */
final class Shape {
    record Part(Slot slot, boolean nullable) {}

    private static final Map<Class<?>, List<Slot>> SLOTS = new HashMap<>();
    private static final Map<String, Shape> SHAPES = new HashMap<>();

    private final List<Part> parts;
    private final boolean flexible;

    private Shape(List<Part> parts, boolean flexible) {
        this.parts = parts;
        this.flexible = flexible;
    }

    /** The fields that the version has, by name. */
    List<Part> parts() {
        return parts;
    }

    boolean flexible() {
        return flexible;
    }

    static Shape of(Class<?> message, short version) throws ReflectiveOperationException {
        String key = message.getName() + " " + version;
        Shape shape = SHAPES.get(key);
        if (shape == null) {
            shape = ask(message, version);
            SHAPES.put(key, shape);
        }
        return shape;
    }

    static byte[] write(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBufferAccessor target = new ByteBufferAccessor(
            java.nio.ByteBuffer.allocate(message.size(cache, version)));
        message.write(target, cache, version);
        if (target.buffer().hasRemaining()) {
            throw new IllegalStateException(message.getClass() + ": not of the size it said");
        }
        return target.buffer().array();
    }

    private static Shape ask(Class<?> message, short version) throws ReflectiveOperationException {
        List<Part> parts = new ArrayList<>();
        byte[] plain = tryWrite(base(message, version), version);
        if (plain == null) {
            return new Shape(List.of(), false);  // a struct that the version doesn't have
        }
        for (Slot slot : slots(message)) {
            Message changed = base(message, version);
            slot.set(changed, Maker.sample(slot, slot.get(changed), version));
            byte[] bytes = tryWrite(changed, version);
            if (bytes == null || Arrays.equals(bytes, plain)) {
                continue;
            }
            boolean nullable = false;
            if (!slot.type().isPrimitive()) {
                slot.set(changed, null);
                nullable = tryWrite(changed, version) != null;
            }
            parts.add(new Part(slot, nullable));
        }
        Message tagged = base(message, version);
        tagged.unknownTaggedFields().add(new RawTaggedField(5000, new byte[0]));
        return new Shape(parts, tryWrite(tagged, version) != null);
    }

    /** A message that can be written, if the version has it: no null but where that is allowed. */
    private static Message base(Class<?> message, short version) throws ReflectiveOperationException {
        Message made = (Message) message.getDeclaredConstructor().newInstance();
        if (tryWrite(made, version) == null) {
            for (Slot slot : slots(message)) {
                if (slot.get(made) == null) {
                    slot.set(made, Maker.empty(slot));
                }
            }
        }
        return made;
    }

    private static byte[] tryWrite(Message message, short version) {
        try {
            return write(message, version);
        } catch (UnsupportedVersionException | NullPointerException refused) {
            return null;
        }
    }

    private static List<Slot> slots(Class<?> message) throws ReflectiveOperationException {
        List<Slot> slots = SLOTS.get(message);
        if (slots == null) {
            slots = new ArrayList<>();
            for (Field field : message.getDeclaredFields()) {
                Slot slot = Modifier.isStatic(field.getModifiers()) ? null : Slot.of(message, field);
                if (slot != null) {
                    slots.add(slot);
                }
            }
            slots.sort(Comparator.comparing(Slot::name));
            SLOTS.put(message, slots);
        }
        return slots;
    }
}
