-- Records produced to and fetched from each partition, most bytes first.
--
-- Records that a broker refused are not counted.
--
-- only if requests: bool_or(is_record_api(api_name))
WITH sides AS (
    SELECT
        topic,
        topic_id,
        "partition",
        is_produce,
        requests,
        0 AS records,
        0 AS bytes,
        CAST(NULL AS BIGINT) AS high_watermark
    FROM partition_requests
    UNION ALL
    SELECT
        topic,
        topic_id,
        "partition",
        is_produce_api(api_name) AS is_produce,
        0 AS requests,
        coalesce(sum(records), 0) AS records,
        coalesce(sum(bytes), 0) AS bytes,
        max(high_watermark) AS high_watermark
    FROM partition_sums
    WHERE NOT is_refused AND "partition" IS NOT NULL
    GROUP BY topic, topic_id, "partition", is_produce
)
SELECT
    topic,
    topic_id,
    "partition",
    sum(CASE WHEN is_produce THEN requests ELSE 0 END) AS produce_requests,
    sum(CASE WHEN is_produce THEN records ELSE 0 END) AS produced_records,
    sum(CASE WHEN is_produce THEN bytes ELSE 0 END) AS produced_bytes,
    sum(CASE WHEN is_produce THEN 0 ELSE requests END) AS fetch_requests,
    sum(CASE WHEN is_produce THEN 0 ELSE records END) AS fetched_records,
    sum(CASE WHEN is_produce THEN 0 ELSE bytes END) AS fetched_bytes,
    max(high_watermark) AS high_watermark
FROM sides
GROUP BY topic, topic_id, "partition"
ORDER BY
    produced_bytes + fetched_bytes DESC,
    topic NULLS LAST,
    topic_id NULLS LAST,
    "partition"
LIMIT $most_keys
