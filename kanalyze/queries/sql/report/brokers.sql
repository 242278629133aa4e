-- Requests by broker.
--
-- Latencies are of requests that did not wait on purpose. The line of other brokers, which sums up
-- all but the busiest, has none.
--
-- only if requests: count(*) > 0
WITH busiest AS (
    SELECT
        broker_ip,
        broker_port
    FROM request_sums
    GROUP BY broker_ip, broker_port
    ORDER BY sum(CASE WHEN is_request THEN many ELSE 0 END) DESC, broker_ip, broker_port
    LIMIT $most_keys
),
counted AS (
    SELECT
        busiest.broker_ip,
        busiest.broker_port,
        busiest.broker_ip IS NULL AS other,
        sum(CASE WHEN is_request THEN many ELSE 0 END) AS requests,
        sum(CASE WHEN is_error THEN many ELSE 0 END) AS errors,
        sum(CASE WHEN is_unread THEN many ELSE 0 END) AS unread,
        sum(request_bytes) AS request_bytes,
        sum(response_bytes) AS response_bytes
    FROM request_sums
    LEFT JOIN busiest
        ON request_sums.broker_ip = busiest.broker_ip
        AND request_sums.broker_port = busiest.broker_port
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
