-- Nanoseconds as seconds, to a tenth.
CREATE TEMP MACRO in_s(ns) AS round(ns / 1e9 * 10) / 10
