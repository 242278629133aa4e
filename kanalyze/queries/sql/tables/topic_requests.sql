-- Number of requests that produced to or fetched from each topic.
--
-- A request counts once, however many partitions of the topic it names. A topic whose name is unknown
-- has its id.
WITH named AS (
    SELECT
        unnest(
            list_distinct(
                list_transform(
                    listed,
                    lambda p: struct_pack(topic := p.topic, topic_id := p.topic_id)
                )
            )
        ) AS named,
        is_produce,
        requests
    FROM partition_lists
)
SELECT
    named.named.topic AS topic,
    named.named.topic_id AS topic_id,
    is_produce,
    CAST(sum(requests) AS BIGINT) AS requests
FROM named
GROUP BY named.named.topic, named.named.topic_id, is_produce
