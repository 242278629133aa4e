-- Requests by API.
--
-- Counts are of all requests. Latencies are of requests that did not wait on purpose; those of the
-- others are in `waited`. Orphan responses are the line whose `api_key` is null. Records are null
-- for APIs without records; records that a broker refused are left out.
WITH counted AS (
    SELECT
        wire,
        api_key,
        api_name,
        count(*) FILTER (WHERE is_request) AS requests,
        count(response_bytes) AS responses,
        count(*) FILTER (WHERE status = 'ok') AS "statuses.ok",
        count(*) FILTER (WHERE status = 'error') AS "statuses.error",
        count(*) FILTER (WHERE status = 'one_way') AS "statuses.one_way",
        count(*) FILTER (WHERE status = 'unanswered') AS "statuses.unanswered",
        count(*) FILTER (WHERE status = 'orphan_response') AS "statuses.orphan_response",
        count(*) FILTER (WHERE status = 'malformed') AS "statuses.malformed",
        count(*) FILTER (WHERE is_unread) AS unread,
        coalesce(sum(request_bytes), 0) AS request_bytes,
        coalesce(sum(response_bytes), 0) AS response_bytes,
        sum(carried_records) FILTER (WHERE is_produce OR is_fetch) AS record_count,
        sum(carried_bytes) FILTER (WHERE is_produce OR is_fetch) AS record_bytes,
        NOT bool_or(has_uncounted_records) FILTER (WHERE is_produce OR is_fetch)
            AS record_count_known,
        count(*) FILTER (WHERE throttle_time_ms <> 0) AS throttled,
        coalesce(sum(throttle_time_ms), 0) AS throttle_time_ms,
        count(*) FILTER (WHERE has_waited AND is_request) AS "waited.requests",
        count(*) FILTER (WHERE has_waited AND is_error) AS "waited.errors",
        coalesce(sum(request_bytes) FILTER (WHERE has_waited), 0) AS "waited.request_bytes",
        coalesce(sum(response_bytes) FILTER (WHERE has_waited), 0) AS "waited.response_bytes",
        sum(CASE WHEN has_waited THEN carried_records ELSE 0 END)
            FILTER (WHERE is_produce OR is_fetch) AS "waited.record_count"
    FROM carried
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
