-- Sums of records of each partition, by client, API, status and refusal.
--
-- kept: several tables of a report, and a finding, read it.
--
-- A partition whose topic's name is unknown has its id. `is_refused`: the partition had an error code;
-- `is_uncounted`: there were records whose number is unknown.
SELECT
    api_name,
    client_id,
    topic,
    CASE WHEN topic IS NULL THEN topic_id END AS topic_id,
    "partition",
    status,
    coalesce(error_code, 0) <> 0 AS is_refused,
    sum(record_count) AS records,
    sum(record_bytes) AS bytes,
    max(high_watermark) AS high_watermark,
    bool_or(
        record_count IS NULL
        AND request_record_count IS NULL
        AND (is_produce_api(api_name) OR status <> 'unanswered')
    ) AS is_uncounted,
    min(request_start_ns) AS first_time_ns,
    max(request_start_ns) AS last_time_ns
FROM (
    SELECT
        api_name,
        client_id,
        topic,
        topic_id,
        "partition",
        status,
        error_code,
        record_count,
        record_bytes,
        high_watermark,
        request_record_count,
        request_start_ns
    FROM partitions
    WHERE is_record_api(api_name)
    -- sessions: UNION ALL BY NAME
    -- sessions: FROM session_parts
) AS parts
GROUP BY
    api_name, client_id, topic, CASE WHEN topic IS NULL THEN topic_id END, "partition", status,
    is_refused
