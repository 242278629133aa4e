-- Produced and fetched amounts of partitions, by codec and all dimensions of the page.
--
-- What a broker refused is not counted.
SELECT
    coalesce(page_parts.ix, -1) AS part,
    p.codec,
    CASE WHEN r.client < $clients THEN r.client ELSE -1 END AS client,
    CASE WHEN r.api < $apis THEN r.api ELSE -1 END AS api,
    CASE WHEN r.broker < $brokers THEN r.broker ELSE -1 END AS broker,
    CASE WHEN r."group" < $groups THEN r."group" ELSE -1 END AS "group",
    CASE
        WHEN coalesce(p.topic, p.topic_id) IS NULL THEN -2
        WHEN page_topics.ix < $topics THEN page_topics.ix
        ELSE -1
    END AS topic,
    coalesce((r.time_ns - $start_ns) // $bucket_ns, -1) AS bucket,
    count(*) AS rows,
    coalesce(sum(p.record_count), 0) AS records,
    coalesce(sum(p.record_bytes), 0) AS record_bytes,
    max(p.high_watermark) AS high_watermark
FROM partitions AS p
JOIN page_requests AS r ON p.request_id = r.request_id AND NOT r.is_again
LEFT JOIN page_parts
    ON coalesce(p.topic, p.topic_id) IS NOT DISTINCT FROM page_parts.topic
    AND p."partition" = page_parts."partition"
LEFT JOIN page_topics ON coalesce(p.topic, p.topic_id) = page_topics.name
WHERE
    p.api_name IN ('Produce', 'MultiProduce', 'Fetch', 'MultiFetch', 'ShareFetch')
    AND coalesce(p.error_code, 0) = 0
    AND p."partition" IS NOT NULL
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
ORDER BY 1, 2, 3, 4, 5, 6, 7, 8
LIMIT $most_cells
