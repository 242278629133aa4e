package vectors;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.util.Collection;
import org.apache.kafka.common.protocol.Message;

/** One field of a generated message class: how to set it, and what may be in it. */
final class Slot {
    private final Field field;
    private final Method setter;
    private final Class<?> element;
    private final long lowest;
    private final long highest;

    private Slot(Field field, Method setter, Class<?> element, long[] bounds) {
        this.field = field;
        this.setter = setter;
        this.element = element;
        this.lowest = bounds[0];
        this.highest = bounds[1];
    }

    /** The field of that name, null when it is no field of the message. */
    static Slot of(Class<?> message, Field field) throws ReflectiveOperationException {
        String name = field.getName();
        String setterName = "set" + Character.toUpperCase(name.charAt(0)) + name.substring(1);
        for (Method method : message.getDeclaredMethods()) {
            if (method.getName().equals(setterName) && method.getParameterCount() == 1) {
                field.setAccessible(true);
                return new Slot(field, method, elementOf(field), bounds(message, field, method));
            }
        }
        return null;
    }

    private static Class<?> elementOf(Field field) {
        if (!Collection.class.isAssignableFrom(field.getType())) {
            return null;
        }
        Type type = field.getGenericType();
        if (!(type instanceof ParameterizedType)) {
            type = field.getType().getGenericSuperclass();
        }
        return (Class<?>) ((ParameterizedType) type).getActualTypeArguments()[0];
    }

    /** The numbers that fit; the setters of unsigned fields refuse others. */
    private static long[] bounds(Class<?> message, Field field, Method setter)
            throws ReflectiveOperationException {
        Class<?> type = field.getType();
        if (type == byte.class) {
            return new long[] {Byte.MIN_VALUE, Byte.MAX_VALUE};
        }
        if (type == short.class) {
            return new long[] {Short.MIN_VALUE, Short.MAX_VALUE};
        }
        Object made = message.getDeclaredConstructor().newInstance();
        if (type == int.class) {
            return takes(made, setter, -1) ? new long[] {Integer.MIN_VALUE, Integer.MAX_VALUE}
                : new long[] {0, 0xFFFFL};
        }
        if (type == long.class) {
            return takes(made, setter, -1L) ? new long[] {Long.MIN_VALUE, Long.MAX_VALUE}
                : new long[] {0, 0xFFFFFFFFL};
        }
        return new long[] {0, 0};
    }

    private static boolean takes(Object made, Method setter, Object value) throws IllegalAccessException {
        try {
            setter.invoke(made, value);
            return true;
        } catch (InvocationTargetException refused) {
            return false;
        }
    }

    Class<?> type() {
        return field.getType();
    }

    Class<?> element() {
        return element;
    }

    /** Whether it is a struct or a collection of them. */
    boolean holdsStructs() {
        return Message.class.isAssignableFrom(element == null ? type() : element);
    }

    String name() {
        return field.getName();
    }

    long lowest() {
        return lowest;
    }

    long highest() {
        return highest;
    }

    Object get(Object message) throws IllegalAccessException {
        return field.get(message);
    }

    void set(Object message, Object value) throws ReflectiveOperationException {
        setter.invoke(message, value);
    }
}
