-- Latency of producing to and fetching from each topic.
--
-- A request counts once for each of its topics; those that waited on purpose are left out. A topic
-- whose name is unknown has its id.
--
-- only if requests: bool_or(is_record_api(api_name))
SELECT
    key_1 AS topic,
    key_2 AS topic_id,
    key_3 AS api_name,
    summary AS latency_ns
FROM quantiles
WHERE subject = 'topic'
ORDER BY count DESC, topic NULLS LAST, topic_id NULLS LAST, api_name
LIMIT $most_keys
