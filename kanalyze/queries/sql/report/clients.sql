-- Requests by client id.
--
-- A response does not name its client, so orphan responses are left out. Latencies are of requests
-- that did not wait on purpose. The line of other clients, which sums up all but the busiest, has
-- none.
--
-- only if requests: count(*) > 0
WITH busiest AS (
    SELECT
        client_id,
        true AS is_busy
    FROM request_sums
    WHERE is_request
    GROUP BY client_id
    ORDER BY sum(many) DESC, client_id NULLS LAST
    LIMIT $most_keys
),
counted AS (
    SELECT
        busiest.client_id,
        is_busy IS NULL AS other,
        sum(many) AS requests,
        sum(CASE WHEN is_error THEN many ELSE 0 END) AS errors,
        sum(CASE WHEN is_unread THEN many ELSE 0 END) AS unread,
        sum(request_bytes) AS request_bytes,
        sum(response_bytes) AS response_bytes
    FROM request_sums
    LEFT JOIN busiest ON request_sums.client_id IS NOT DISTINCT FROM busiest.client_id
    WHERE is_request
    GROUP BY busiest.client_id, other
)
SELECT
    counted.*,
    latency.summary AS latency_ns
FROM counted
LEFT JOIN quantiles AS latency
    ON latency.subject = 'client'
    AND latency.measure = 'latency_ns'
    AND NOT latency.waited
    AND latency.key_1 IS NOT DISTINCT FROM counted.client_id
    AND NOT counted.other
ORDER BY other, requests DESC, client_id NULLS LAST
