-- The spans of time of the report, in one line; none without events.
SELECT
    start_ns,
    bucket_ns,
    buckets
FROM time_buckets
