-- The requests that name several topics, each with the first of them.
SELECT
    request_id,
    min(topic) AS first_topic
FROM page_named
GROUP BY request_id
HAVING count(*) > 1
