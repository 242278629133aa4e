package vectors;

/** What a vector is to try. Each message version has one of each, in this order. */
enum Style {
    /** Null where it may be, empty, zero or the lowest number otherwise; no tagged field is set. */
    SPARE,
    /** Structs that hold empties and nulls, by turns; numbers as in SPARE. */
    HOLLOW,
    /** The same, one turn on. */
    HOLLOWER,
    /** Everything set, every tag, no null. */
    FULL,
    /** Lowest and highest numbers, long texts, unknown tags. */
    LIMITS,
    /** Anything. */
    RANDOM,
    /** Anything, and unknown tags. */
    TAGS;

    /** Whether numbers are small, and texts and bytes empty. */
    boolean isEmpty() {
        return this == SPARE || isHollow();
    }

    /** Whether fields are empty, null or neither by turns. */
    boolean isHollow() {
        return this == HOLLOW || this == HOLLOWER;
    }

    boolean hasUnknownTags() {
        return this == LIMITS || this == TAGS;
    }
}
