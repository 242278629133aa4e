-- Requests by client id and API: who is slow with what.
--
-- Latencies are of requests that did not wait on purpose.
SELECT
    client_id,
    api_name,
    count(*) AS requests,
    count(*) FILTER (WHERE is_error) AS errors,
    count(*) FILTER (WHERE status = 'unanswered') AS unanswered,
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
WHERE is_request
GROUP BY client_id, api_name
ORDER BY requests DESC, client_id NULLS LAST, api_name NULLS LAST
LIMIT $most_keys
