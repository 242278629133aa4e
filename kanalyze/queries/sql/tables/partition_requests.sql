-- Number of requests that produced to or fetched from each partition.
--
-- kept: lists are read in a pass of their own, because two such passes at once take more memory.
--
-- A request counts once, however often it names the partition. Refused partitions do not count.
WITH named AS (
    SELECT
        unnest(
            list_distinct(
                list_transform(
                    list_filter(
                        partitions,
                        lambda p: coalesce(p.error_code, 0) = 0 AND p."partition" IS NOT NULL
                    ),
                    lambda p: struct_pack(
                        topic := p.topic,
                        topic_id := CASE WHEN p.topic IS NULL THEN p.topic_id END,
                        number := p."partition"
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
    named.named.number AS "partition",
    is_produce,
    count(*) AS requests
FROM named
GROUP BY named.named.topic, named.named.topic_id, named.named.number, is_produce
