-- Latency over time, of requests that did not wait on purpose.
--
-- A request counts when it begins. Spans without such requests are left out.
--
-- only if requests: count(latency_ns) > 0
SELECT
    CAST(key_1 AS BIGINT) AS start_ns,
    p50,
    p90,
    p99,
    max
FROM quantiles
WHERE subject = 'time'
ORDER BY start_ns
