-- Requests by client id.
--
-- A response does not name its client: responses without a request are left out. Latencies are of
-- requests that did not wait on purpose.
WITH busiest AS (
    SELECT
        client_id,
        true AS is_busy
    FROM measured
    WHERE is_request
    GROUP BY client_id
    ORDER BY count(*) DESC, client_id NULLS LAST
    LIMIT $most_keys
)
SELECT
    busiest.client_id,
    is_busy IS NULL AS other,
    count(*) AS requests,
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
LEFT JOIN busiest ON measured.client_id IS NOT DISTINCT FROM busiest.client_id
WHERE is_request
GROUP BY busiest.client_id, other
ORDER BY other, requests DESC, busiest.client_id NULLS LAST
