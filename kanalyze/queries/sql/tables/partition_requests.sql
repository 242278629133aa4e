-- Number of requests that produced to or fetched from each partition.
--
-- A request counts once, however often it names the partition. Refused partitions do not count.
WITH named AS (
    SELECT
        unnest(
            list_distinct(
                list_filter(listed, lambda p: NOT p.is_refused AND p.number IS NOT NULL)
            )
        ) AS named,
        is_produce,
        requests
    FROM partition_lists
)
SELECT
    named.named.topic AS topic,
    named.named.topic_id AS topic_id,
    named.named.number AS "partition",
    is_produce,
    CAST(sum(requests) AS BIGINT) AS requests
FROM named
GROUP BY named.named.topic, named.named.topic_id, named.named.number, is_produce
