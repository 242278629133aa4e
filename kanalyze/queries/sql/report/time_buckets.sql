-- The spans of time of the report, in one line; no line if there are no events.
--
-- only if requests: count(*) > 0
SELECT
    start_ns,
    bucket_ns,
    buckets
FROM time_buckets
