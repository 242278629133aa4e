-- The topics that most requests name, and their numbers on the page; one of which only the id was
-- seen stands by that.
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
