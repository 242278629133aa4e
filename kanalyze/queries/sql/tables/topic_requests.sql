-- Number of requests that produced to or fetched from each topic.
--
-- kept: lists are read in a pass of their own, because two such passes at once take more memory.
--
-- A request counts once, however many partitions of the topic it names. A topic whose name is unknown
-- has its id.
WITH named AS (
    SELECT
        unnest(
            list_distinct(
                list_transform(
                    partitions,
                    lambda p: struct_pack(
                        topic := p.topic,
                        topic_id := CASE WHEN p.topic IS NULL THEN p.topic_id END
                    )
                )
            )
        ) AS named,
        api_name IN ('Produce', 'MultiProduce') AS is_produce
    FROM requests
    WHERE api_name IN ('Produce', 'MultiProduce', 'Fetch', 'MultiFetch', 'ShareFetch')
)
SELECT
    named.named.topic AS topic,
    named.named.topic_id AS topic_id,
    is_produce,
    count(*) AS requests
FROM named
GROUP BY named.named.topic, named.named.topic_id, is_produce
