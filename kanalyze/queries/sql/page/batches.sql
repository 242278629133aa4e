-- Produced and fetched amounts of partitions, by codec and all dimensions of the page.
--
-- What a broker refused is not counted.
SELECT
    coalesce(page_parts.ix, -1) AS part,
    p.codec,
    page_number(r.client, $clients) AS client,
    page_number(r.api, $apis) AS api,
    page_number(r.broker, $brokers) AS broker,
    page_number(r."group", $groups) AS "group",
    CASE
        WHEN coalesce(p.topic, p.topic_id) IS NULL THEN -2
        ELSE page_number(page_topics.ix, $topics)
    END AS topic,
    page_bucket(r.time_ns, $start_ns, $bucket_ns) AS bucket,
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
    is_record_api(p.api_name)
    AND coalesce(p.error_code, 0) = 0
    AND p."partition" IS NOT NULL
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
ORDER BY 1, 2, 3, 4, 5, 6, 7, 8
LIMIT $most_cells
