-- Ends of the logs of partitions, as responses tell them: when each was first known.
--
-- Records begin where the log ended before they were produced. A topic whose name is unknown has its id.
WITH ended AS (
    SELECT
        coalesce(topic, topic_id) AS topic,
        "partition",
        response_start_ns AS time_ns,
        is_produce_api(api_name) AS is_produce,
        base_offset,
        -- Offsets may have any value of 64 bits, which no sum may exceed.
        CASE
            WHEN base_offset < 4611686018427387904 AND record_count BETWEEN 0 AND 1000000000000
                THEN base_offset + record_count
        END AS produced_end,
        high_watermark
    FROM partitions
    WHERE
        is_record_api(api_name)
        AND coalesce(error_code, 0) = 0
        AND response_start_ns IS NOT NULL
)
SELECT
    topic,
    "partition",
    log_end_offset,
    min(time_ns) AS time_ns
FROM (
    SELECT topic, "partition", time_ns, base_offset AS log_end_offset FROM ended WHERE is_produce
    UNION ALL
    SELECT topic, "partition", time_ns, produced_end FROM ended WHERE is_produce
    UNION ALL
    SELECT topic, "partition", time_ns, high_watermark FROM ended WHERE NOT is_produce
) AS ends
WHERE topic IS NOT NULL AND "partition" IS NOT NULL AND log_end_offset BETWEEN 0 AND 4611686018427387904
GROUP BY topic, "partition", log_end_offset
