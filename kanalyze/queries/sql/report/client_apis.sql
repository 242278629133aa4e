-- Requests by client id and API: which client is slow with which API.
--
-- Latencies are of requests that did not wait on purpose.
--
-- only if requests: count(*) > 0
WITH counted AS (
    SELECT
        client_id,
        api_name,
        sum(many) AS requests,
        sum(CASE WHEN is_error THEN many ELSE 0 END) AS errors,
        sum(CASE WHEN is_unread THEN many ELSE 0 END) AS unread,
        sum(CASE WHEN status = 'unanswered' THEN many ELSE 0 END) AS unanswered,
        sum(request_bytes) AS request_bytes,
        sum(response_bytes) AS response_bytes
    FROM request_sums
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
