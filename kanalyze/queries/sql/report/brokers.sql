-- Requests by broker.
--
-- Latencies are of requests that did not wait on purpose. The line of other brokers, which sums up
-- all but the busiest, has none.
WITH busiest AS (
    SELECT
        broker_ip,
        broker_port
    FROM measured
    GROUP BY broker_ip, broker_port
    ORDER BY count(*) FILTER (WHERE is_request) DESC, broker_ip, broker_port
    LIMIT $most_keys
),
counted AS (
    SELECT
        busiest.broker_ip,
        busiest.broker_port,
        busiest.broker_ip IS NULL AS other,
        count(*) FILTER (WHERE is_request) AS requests,
        count(*) FILTER (WHERE is_error) AS errors,
        count(*) FILTER (WHERE is_unread) AS unread,
        coalesce(sum(request_bytes), 0) AS request_bytes,
        coalesce(sum(response_bytes), 0) AS response_bytes
    FROM measured
    LEFT JOIN busiest
        ON measured.broker_ip = busiest.broker_ip AND measured.broker_port = busiest.broker_port
    GROUP BY busiest.broker_ip, busiest.broker_port, other
)
SELECT
    counted.*,
    latency.summary AS latency_ns
FROM counted
LEFT JOIN quantiles AS latency
    ON latency.subject = 'broker'
    AND latency.measure = 'latency_ns'
    AND NOT latency.waited
    AND latency.key_1 = counted.broker_ip
    AND latency.key_2 = CAST(counted.broker_port AS VARCHAR)
ORDER BY other, requests DESC, broker_ip, broker_port
