-- What was produced to and fetched from each partition, most bytes first.
--
-- What a broker refused is not counted.
SELECT
    topic,
    CASE WHEN topic IS NULL THEN topic_id END AS topic_id,
    "partition",
    count(DISTINCT request_id) FILTER (WHERE api_name IN ('Produce', 'MultiProduce'))
        AS produce_requests,
    coalesce(sum(record_count) FILTER (WHERE api_name IN ('Produce', 'MultiProduce')), 0)
        AS produced_records,
    coalesce(sum(record_bytes) FILTER (WHERE api_name IN ('Produce', 'MultiProduce')), 0)
        AS produced_bytes,
    count(DISTINCT request_id) FILTER (WHERE api_name NOT IN ('Produce', 'MultiProduce'))
        AS fetch_requests,
    coalesce(sum(record_count) FILTER (WHERE api_name NOT IN ('Produce', 'MultiProduce')), 0)
        AS fetched_records,
    coalesce(sum(record_bytes) FILTER (WHERE api_name NOT IN ('Produce', 'MultiProduce')), 0)
        AS fetched_bytes,
    max(high_watermark) AS high_watermark
FROM partitions
WHERE
    api_name IN ('Produce', 'MultiProduce', 'Fetch', 'MultiFetch', 'ShareFetch')
    AND coalesce(error_code, 0) = 0
    AND "partition" IS NOT NULL
GROUP BY topic, CASE WHEN topic IS NULL THEN topic_id END, "partition"
ORDER BY
    produced_bytes + fetched_bytes DESC,
    topic NULLS LAST,
    topic_id NULLS LAST,
    "partition"
LIMIT $most_keys
