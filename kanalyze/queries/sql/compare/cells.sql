-- Requests by line of the comparison, by slice of time, and by bin of latency.
--
-- Latency is compared by API, and by client, topic and broker within an API: otherwise a client
-- that uses more of a slow API would seem slow. Bin b has latencies from $bin_ratio^b ns on; it is null
-- for requests that waited on purpose or have no response. UUIDs in client ids are replaced by `*`,
-- because they change at each start. `due` counts the requests that a response is due to, `unread`
-- those of them whose response was not read.
WITH asked AS (
    SELECT
        request_id,
        CASE
            WHEN api_name IS NULL THEN concat('key ', api_key)
            WHEN wire = 'kafka' THEN api_name
            ELSE concat(api_name, ' ', wire)
        END AS api,
        without_uuids(client_id) AS client,
        address_text(broker_ip, broker_port) AS broker,
        slice,
        CAST(floor(
            ln(CASE WHEN work_latency_ns < 1 THEN 1 ELSE work_latency_ns END) / ln($bin_ratio)
        ) AS INTEGER) AS bin,
        status <> 'one_way' AS is_due,
        is_error,
        is_unread,
        status = 'unanswered' AS is_unanswered,
        throttle_time_ms > 0 AS is_throttled,
        has_waited,
        request_bytes,
        response_bytes
    FROM measured
    LEFT JOIN compare_slices ON request_start_ns // 1000000000 = second
    WHERE is_request
),
of_topics AS (
    SELECT
        request_id,
        coalesce(topic, concat('id ', topic_id)) AS topic,
        bool_or(coalesce(error_code, 0) <> 0) AS is_error
    FROM partitions
    WHERE is_record_api(api_name)
    GROUP BY request_id, coalesce(topic, concat('id ', topic_id))
),
named AS (
    SELECT
        kinds.kind,
        api,
        CASE kinds.kind WHEN 'client' THEN client WHEN 'broker' THEN broker END AS name,
        slice,
        bin,
        is_due,
        is_error,
        is_unread,
        is_unanswered,
        is_throttled,
        has_waited,
        request_bytes,
        response_bytes
    FROM asked
    CROSS JOIN (VALUES ('api'), ('client'), ('broker')) AS kinds (kind)
    UNION ALL
    SELECT
        'topic' AS kind,
        api,
        topic AS name,
        slice,
        bin,
        is_due,
        of_topics.is_error,
        is_unread,
        is_unanswered,
        is_throttled,
        has_waited,
        request_bytes,
        response_bytes
    FROM asked
    JOIN of_topics ON asked.request_id = of_topics.request_id
    WHERE topic IS NOT NULL
)
SELECT
    kind,
    api,
    name,
    slice,
    bin,
    count(*) AS requests,
    count(*) FILTER (WHERE is_due) AS due,
    count(*) FILTER (WHERE is_error) AS errors,
    count(*) FILTER (WHERE is_unread) AS unread,
    count(*) FILTER (WHERE is_unanswered) AS unanswered,
    count(*) FILTER (WHERE is_throttled) AS throttled,
    count(*) FILTER (WHERE has_waited) AS waited,
    coalesce(sum(request_bytes), 0) AS request_bytes,
    coalesce(sum(response_bytes), 0) AS response_bytes
FROM named
GROUP BY kind, api, name, slice, bin
