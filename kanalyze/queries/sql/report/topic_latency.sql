-- Latency of producing to and fetching from each topic.
--
-- A request counts once for each of its topics; those that waited on purpose are left out. Topics of
-- which only the id was seen stand by it.
WITH of_topics AS (
    SELECT DISTINCT
        request_id,
        topic,
        CASE WHEN topic IS NULL THEN topic_id END AS topic_id,
        api_name,
        latency_ns
    FROM partitions
    WHERE
        api_name IN ('Produce', 'MultiProduce', 'Fetch', 'MultiFetch', 'ShareFetch')
        AND latency_ns IS NOT NULL
        AND waited IS NOT TRUE
)
SELECT
    topic,
    topic_id,
    api_name,
    count(latency_ns) AS "latency_ns.count",
    min(latency_ns) AS "latency_ns.min",
    percentile_disc(0.5) WITHIN GROUP (ORDER BY latency_ns) AS "latency_ns.p50",
    percentile_disc(0.9) WITHIN GROUP (ORDER BY latency_ns) AS "latency_ns.p90",
    percentile_disc(0.99) WITHIN GROUP (ORDER BY latency_ns) AS "latency_ns.p99",
    max(latency_ns) AS "latency_ns.max",
    sum(latency_ns) // nullif(count(latency_ns), 0) AS "latency_ns.mean"
FROM of_topics
GROUP BY topic, topic_id, api_name
ORDER BY count(*) DESC, topic NULLS LAST, topic_id NULLS LAST, api_name
LIMIT $most_keys
