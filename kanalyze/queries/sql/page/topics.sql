-- The topics with the most requests, and their numbers on the page; a topic whose name is unknown
-- has its id.
WITH named AS (
    SELECT coalesce(topic, topic_id) AS name
    FROM partitions
    UNION ALL
    SELECT topic AS name
    FROM errors
)
SELECT
    name,
    row_number() OVER (ORDER BY count(*) DESC, name) - 1 AS ix
FROM named
WHERE name IS NOT NULL
GROUP BY name
ORDER BY ix
LIMIT $most
