-- Requests by client id and API: which client is slow with which API.
--
-- Latencies are of requests that did not wait on purpose.
WITH counted AS (
    SELECT
        client_id,
        api_name,
        count(*) AS requests,
        count(*) FILTER (WHERE is_error) AS errors,
        count(*) FILTER (WHERE is_unread) AS unread,
        count(*) FILTER (WHERE status = 'unanswered') AS unanswered,
        coalesce(sum(request_bytes), 0) AS request_bytes,
        coalesce(sum(response_bytes), 0) AS response_bytes
    FROM measured
    WHERE is_request
    GROUP BY client_id, api_name
    ORDER BY requests DESC, client_id NULLS LAST, api_name NULLS LAST
    LIMIT $most_keys
)
SELECT
    counted.*,
    latency.summary AS latency_ns
FROM counted
LEFT JOIN quantiles AS latency
    ON latency.subject = 'client_api'
    AND latency.measure = 'latency_ns'
    AND NOT latency.waited
    AND latency.key_1 IS NOT DISTINCT FROM counted.client_id
    AND latency.key_2 IS NOT DISTINCT FROM counted.api_name
ORDER BY requests DESC, client_id NULLS LAST, api_name NULLS LAST
