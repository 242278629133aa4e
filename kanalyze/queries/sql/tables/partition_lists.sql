-- Lists of partitions that requests produced to or fetched from, each once.
--
-- kept: lists are read in a pass of their own, because two such passes at once take more memory.
--
-- Many requests of a client name the same partitions in the same order, and requests of a fetch
-- session inherit up to a thousand each. A partition whose topic's name is unknown has its id.
SELECT
    list_transform(
        partitions,
        lambda p: struct_pack(
            topic := p.topic,
            topic_id := CASE WHEN p.topic IS NULL THEN p.topic_id END,
            number := p."partition",
            is_refused := coalesce(p.error_code, 0) <> 0
        )
    ) AS listed,
    is_produce_api(api_name) AS is_produce,
    count(*) AS requests
FROM requests
WHERE is_record_api(api_name)
GROUP BY listed, is_produce
