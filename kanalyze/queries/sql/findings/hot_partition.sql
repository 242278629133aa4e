-- Partitions with far more traffic than the others of their topic.
--
-- severity: 30
-- sure: certain: the bytes are those of the records. Partitions without traffic in the capture do not count.
-- why: Its broker and one consumer of each group have far more work than the others; more partitions or members do not help.
-- repair: Look at the keys of the records: if one is most frequent (null replaced by a constant, one large customer), use a key with more parts, or a partitioner that spreads it. Records without a key are spread automatically.
-- see: partitions
-- only if requests: bool_or(is_record_api(api_name))
-- only if partition_sums: count(DISTINCT "partition") >= $least_partitions
-- parameter least_ratio = 5: minimum ratio to the mean of the topic's partitions
-- parameter least_share = 0.25: minimum share of the topic's bytes: with many partitions, several times the mean is little
-- parameter least_partitions = 6: minimum number of the topic's partitions to compare with
-- parameter least_bytes = 10000: minimum bytes of records
WITH of_partitions AS (
    SELECT
        api_name,
        topic,
        "partition",
        sum(bytes) AS bytes,
        sum(records) AS records,
        count(DISTINCT client_id) AS clients,
        min(first_time_ns) AS first_time_ns,
        max(last_time_ns) AS last_time_ns
    FROM partition_sums
    WHERE api_name IN ('Produce', 'Fetch') AND topic IS NOT NULL AND "partition" IS NOT NULL
    GROUP BY api_name, topic, "partition"
),
compared AS (
    SELECT
        *,
        sum(bytes) OVER of_topic AS all_bytes,
        count(*) OVER of_topic AS parts
    FROM of_partitions
    WINDOW of_topic AS (PARTITION BY api_name, topic)
)
SELECT
    topic,
    api_name,
    concat(
        'partition ', "partition", ' has ', CAST(round(100.0 * bytes / all_bytes) AS BIGINT),
        ' % of the bytes of ', parts, ' partitions: ', bytes, ' B, ', records, ' records, of ', number_text(clients, 'client')
    ) AS what,
    -- rows: (SELECT list(DISTINCT request_id) FROM partitions WHERE partitions.api_name = compared.api_name AND partitions.topic = compared.topic AND partitions."partition" = compared."partition") AS request_ids,
    bytes AS weight,
    first_time_ns,
    last_time_ns
FROM compared
WHERE
    parts >= $least_partitions
    AND all_bytes > 0
    AND bytes >= $least_bytes
    AND bytes >= $least_share * all_bytes
    AND bytes * parts >= $least_ratio * all_bytes
