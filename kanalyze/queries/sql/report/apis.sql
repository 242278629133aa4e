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
)
SELECT
    counted.*,
    coalesce(latency.count, 0) AS "latency_ns.count",
    latency.min AS "latency_ns.min",
    latency.p50 AS "latency_ns.p50",
    latency.p90 AS "latency_ns.p90",
    latency.p99 AS "latency_ns.p99",
    latency.max AS "latency_ns.max",
    latency.mean AS "latency_ns.mean",
    coalesce(total.count, 0) AS "total_time_ns.count",
    total.min AS "total_time_ns.min",
    total.p50 AS "total_time_ns.p50",
    total.p90 AS "total_time_ns.p90",
    total.p99 AS "total_time_ns.p99",
    total.max AS "total_time_ns.max",
    total.mean AS "total_time_ns.mean",
    coalesce(waited_latency.count, 0) AS "waited.latency_ns.count",
    waited_latency.min AS "waited.latency_ns.min",
    waited_latency.p50 AS "waited.latency_ns.p50",
    waited_latency.p90 AS "waited.latency_ns.p90",
    waited_latency.p99 AS "waited.latency_ns.p99",
    waited_latency.max AS "waited.latency_ns.max",
    waited_latency.mean AS "waited.latency_ns.mean",
    coalesce(waited_total.count, 0) AS "waited.total_time_ns.count",
    waited_total.min AS "waited.total_time_ns.min",
    waited_total.p50 AS "waited.total_time_ns.p50",
    waited_total.p90 AS "waited.total_time_ns.p90",
    waited_total.p99 AS "waited.total_time_ns.p99",
    waited_total.max AS "waited.total_time_ns.max",
    waited_total.mean AS "waited.total_time_ns.mean"
FROM counted
LEFT JOIN quantiles AS latency
    ON latency.subject = 'api'
    AND latency.measure = 'latency_ns'
    AND NOT latency.waited
    AND latency.key_1 = counted.wire
    AND latency.key_2 IS NOT DISTINCT FROM CAST(counted.api_key AS VARCHAR)
    AND latency.key_3 IS NOT DISTINCT FROM counted.api_name
LEFT JOIN quantiles AS total
    ON total.subject = 'api'
    AND total.measure = 'total_time_ns'
    AND NOT total.waited
    AND total.key_1 = counted.wire
    AND total.key_2 IS NOT DISTINCT FROM CAST(counted.api_key AS VARCHAR)
    AND total.key_3 IS NOT DISTINCT FROM counted.api_name
LEFT JOIN quantiles AS waited_latency
    ON waited_latency.subject = 'api'
    AND waited_latency.measure = 'latency_ns'
    AND waited_latency.waited
    AND waited_latency.key_1 = counted.wire
    AND waited_latency.key_2 IS NOT DISTINCT FROM CAST(counted.api_key AS VARCHAR)
    AND waited_latency.key_3 IS NOT DISTINCT FROM counted.api_name
LEFT JOIN quantiles AS waited_total
    ON waited_total.subject = 'api'
    AND waited_total.measure = 'total_time_ns'
    AND waited_total.waited
    AND waited_total.key_1 = counted.wire
    AND waited_total.key_2 IS NOT DISTINCT FROM CAST(counted.api_key AS VARCHAR)
    AND waited_total.key_3 IS NOT DISTINCT FROM counted.api_name
ORDER BY requests DESC, wire, api_key NULLS LAST, api_name NULLS LAST
