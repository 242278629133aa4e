-- Latency over time, of requests that did not wait on purpose.
--
-- A request counts when it begins.
SELECT
    request_start_ns // $bucket_ns * $bucket_ns AS start_ns,
    count(*) FILTER (WHERE is_error) AS errors,
    count(work_latency_ns) AS "latency_ns.count",
    min(work_latency_ns) AS "latency_ns.min",
    percentile_disc(0.5) WITHIN GROUP (ORDER BY work_latency_ns) AS "latency_ns.p50",
    percentile_disc(0.9) WITHIN GROUP (ORDER BY work_latency_ns) AS "latency_ns.p90",
    percentile_disc(0.99) WITHIN GROUP (ORDER BY work_latency_ns) AS "latency_ns.p99",
    max(work_latency_ns) AS "latency_ns.max",
    sum(work_latency_ns) // nullif(count(work_latency_ns), 0) AS "latency_ns.mean"
FROM measured
WHERE is_request AND request_start_ns IS NOT NULL
GROUP BY request_start_ns // $bucket_ns
ORDER BY start_ns
