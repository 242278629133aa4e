-- Requests by API.
--
-- Counts are of all requests. Latencies are of requests that did not wait on purpose; those of the
-- others are in `waited`. Orphan responses are the line whose `api_key` is null. Records are null
-- for APIs without records; records that a broker refused are left out.
--
-- only if requests: count(*) > 0
WITH counted AS (
    SELECT
        wire,
        api_key,
        api_name,
        sum(CASE WHEN is_request THEN many ELSE 0 END) AS requests,
        sum(responses) AS responses,
        sum(CASE WHEN status = 'ok' THEN many ELSE 0 END) AS "statuses.ok",
        sum(CASE WHEN status = 'error' THEN many ELSE 0 END) AS "statuses.error",
        sum(CASE WHEN status = 'one_way' THEN many ELSE 0 END) AS "statuses.one_way",
        sum(CASE WHEN status = 'unanswered' THEN many ELSE 0 END) AS "statuses.unanswered",
        sum(CASE WHEN status = 'orphan_response' THEN many ELSE 0 END) AS "statuses.orphan_response",
        sum(CASE WHEN status = 'malformed' THEN many ELSE 0 END) AS "statuses.malformed",
        sum(CASE WHEN is_unread THEN many ELSE 0 END) AS unread,
        sum(request_bytes) AS request_bytes,
        sum(response_bytes) AS response_bytes,
        sum(carried_records) FILTER (WHERE is_produce OR is_fetch) AS record_count,
        sum(carried_bytes) FILTER (WHERE is_produce OR is_fetch) AS record_bytes,
        NOT bool_or(has_uncounted_records) FILTER (WHERE is_produce OR is_fetch)
            AS record_count_known,
        sum(throttled) AS throttled,
        sum(throttle_time_ms) AS throttle_time_ms,
        sum(CASE WHEN has_waited AND is_request THEN many ELSE 0 END) AS "waited.requests",
        sum(CASE WHEN has_waited AND is_error THEN many ELSE 0 END) AS "waited.errors",
        sum(CASE WHEN has_waited THEN request_bytes ELSE 0 END) AS "waited.request_bytes",
        sum(CASE WHEN has_waited THEN response_bytes ELSE 0 END) AS "waited.response_bytes",
        sum(CASE WHEN has_waited THEN carried_records ELSE 0 END)
            FILTER (WHERE is_produce OR is_fetch) AS "waited.record_count"
    FROM request_sums
    GROUP BY wire, api_key, api_name
),
summaries AS (
    SELECT
        key_1,
        key_2,
        key_3,
        any_value(summary) FILTER (WHERE measure = 'latency_ns' AND NOT waited) AS latency_ns,
        any_value(summary) FILTER (WHERE measure = 'total_time_ns' AND NOT waited) AS total_time_ns,
        any_value(summary) FILTER (WHERE measure = 'latency_ns' AND waited) AS waited_latency_ns,
        any_value(summary) FILTER (WHERE measure = 'total_time_ns' AND waited) AS waited_total_time_ns
    FROM quantiles
    WHERE subject = 'api'
    GROUP BY key_1, key_2, key_3
)
SELECT
    counted.*,
    latency_ns,
    total_time_ns,
    waited_latency_ns AS "waited.latency_ns",
    waited_total_time_ns AS "waited.total_time_ns"
FROM counted
LEFT JOIN summaries
    ON summaries.key_1 = counted.wire
    AND summaries.key_2 IS NOT DISTINCT FROM CAST(counted.api_key AS VARCHAR)
    AND summaries.key_3 IS NOT DISTINCT FROM counted.api_name
ORDER BY requests DESC, wire, api_key NULLS LAST, api_name NULLS LAST
