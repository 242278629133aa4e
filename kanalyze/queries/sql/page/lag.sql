-- Lag of consumer groups over time: of the groups and topics with the highest, at the end of each span.
--
-- Only spans in which it changed. A partition counts from the first span in which its lag is known.
WITH told AS (
    SELECT
        group_id,
        topic,
        "partition",
        page_bucket(time_ns, $start_ns, $bucket_ns) AS bucket,
        arg_max(lag, time_ns) AS records
    FROM lag
    WHERE lag IS NOT NULL
    GROUP BY group_id, topic, "partition", bucket
),
rises AS (
    SELECT
        group_id,
        topic,
        bucket,
        records - coalesce(lag(records) OVER of_partition, 0) AS rise
    FROM told
    WINDOW of_partition AS (PARTITION BY group_id, topic, "partition" ORDER BY bucket)
),
sums AS (
    SELECT
        group_id,
        topic,
        bucket,
        sum(sum(rise)) OVER (PARTITION BY group_id, topic ORDER BY bucket) AS records
    FROM rises
    GROUP BY group_id, topic, bucket
),
highest AS (
    SELECT
        group_id,
        topic,
        max(records) AS most
    FROM sums
    GROUP BY group_id, topic
    ORDER BY most DESC, group_id, topic
    LIMIT $most_lags
)
SELECT
    group_id,
    topic,
    bucket,
    records
FROM sums
JOIN highest USING (group_id, topic)
ORDER BY most DESC, group_id, topic, bucket
