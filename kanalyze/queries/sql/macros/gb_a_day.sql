-- Bytes in a span of nanoseconds as gigabytes (10^9 bytes) a day, in words, to a hundredth.
CREATE TEMP MACRO gb_a_day(bytes, span_ns) AS
    concat(round(bytes * 86400.0 / greatest(span_ns, 1) * 100) / 100, ' GB of records a day')
