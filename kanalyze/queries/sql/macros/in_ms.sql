-- Nanoseconds as milliseconds, to a tenth.
CREATE TEMP MACRO in_ms(ns) AS round(ns / 1e6 * 10) / 10
