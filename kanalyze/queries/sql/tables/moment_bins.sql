-- Latencies of requests in bins, by the `grain_ns` of `time_buckets` that they began in.
SELECT
    request_start_ns // grain_ns * grain_ns AS start_ns,
    latency_bin AS bin,
    count(*) AS many,
    min(latency_ns) AS lowest,
    max(latency_ns) AS highest,
    sum(latency_ns) AS total
FROM measured
CROSS JOIN time_buckets
WHERE is_request AND request_start_ns IS NOT NULL AND NOT has_waited AND latency_ns IS NOT NULL
GROUP BY request_start_ns // grain_ns * grain_ns, latency_bin
