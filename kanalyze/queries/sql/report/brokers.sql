-- Requests by broker.
--
-- Latencies are of requests that did not wait on purpose.
WITH busiest AS (
    SELECT
        broker_ip,
        broker_port
    FROM measured
    GROUP BY broker_ip, broker_port
    ORDER BY count(*) FILTER (WHERE is_request) DESC, broker_ip, broker_port
    LIMIT $most_keys
)
SELECT
    busiest.broker_ip,
    busiest.broker_port,
    busiest.broker_ip IS NULL AS other,
    count(*) FILTER (WHERE is_request) AS requests,
    count(*) FILTER (WHERE is_error) AS errors,
    coalesce(sum(request_bytes), 0) AS request_bytes,
    coalesce(sum(response_bytes), 0) AS response_bytes,
    count(work_latency_ns) AS "latency_ns.count",
    min(work_latency_ns) AS "latency_ns.min",
    percentile_disc(0.5) WITHIN GROUP (ORDER BY work_latency_ns) AS "latency_ns.p50",
    percentile_disc(0.9) WITHIN GROUP (ORDER BY work_latency_ns) AS "latency_ns.p90",
    percentile_disc(0.99) WITHIN GROUP (ORDER BY work_latency_ns) AS "latency_ns.p99",
    max(work_latency_ns) AS "latency_ns.max",
    sum(work_latency_ns) // nullif(count(work_latency_ns), 0) AS "latency_ns.mean"
FROM measured
LEFT JOIN busiest
    ON measured.broker_ip = busiest.broker_ip AND measured.broker_port = busiest.broker_port
GROUP BY busiest.broker_ip, busiest.broker_port, other
ORDER BY other, requests DESC, busiest.broker_ip, busiest.broker_port
