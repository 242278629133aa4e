-- The spans of time of the report, in one line; no line if there are no events.
SELECT
    start_ns,
    bucket_ns,
    buckets
FROM time_buckets
