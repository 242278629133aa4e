-- The requests with several topics, each with its first topic.
SELECT
    request_id,
    min(topic) AS first_topic
FROM page_named
GROUP BY request_id
HAVING count(*) > 1
