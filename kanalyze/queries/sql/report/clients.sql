-- Requests by client id.
--
-- A response does not name its client, so orphan responses are left out. Latencies are of requests
-- that did not wait on purpose. The line of other clients, which sums up all but the busiest, has
-- none.
WITH busiest AS (
    SELECT
        client_id,
        true AS is_busy
    FROM measured
    WHERE is_request
    GROUP BY client_id
    ORDER BY count(*) DESC, client_id NULLS LAST
    LIMIT $most_keys
),
counted AS (
    SELECT
        busiest.client_id,
        is_busy IS NULL AS other,
        count(*) AS requests,
        count(*) FILTER (WHERE is_error) AS errors,
        count(*) FILTER (WHERE is_unread) AS unread,
        coalesce(sum(request_bytes), 0) AS request_bytes,
        coalesce(sum(response_bytes), 0) AS response_bytes
    FROM measured
    LEFT JOIN busiest ON measured.client_id IS NOT DISTINCT FROM busiest.client_id
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
