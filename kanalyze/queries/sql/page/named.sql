-- The records of each topic in each request, by the number of the topic.
--
-- Records that a broker refused are left out.
SELECT
    partitions.request_id,
    CASE
        WHEN coalesce(partitions.topic, partitions.topic_id) IS NULL THEN -2
        ELSE coalesce(page_topics.ix, -1)
    END AS topic,
    sum(partitions.record_count) FILTER (WHERE NOT is_refused) AS records,
    sum(partitions.record_bytes) FILTER (WHERE NOT is_refused) AS record_bytes
FROM (
    SELECT
        request_id,
        topic,
        topic_id,
        record_count,
        record_bytes,
        coalesce(error_code, 0) <> 0 AND status = 'error' AS is_refused
    FROM partitions
) AS partitions
LEFT JOIN page_topics ON coalesce(partitions.topic, partitions.topic_id) = page_topics.name
GROUP BY 1, 2
