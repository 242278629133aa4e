-- The busiest consumer groups, and their numbers on the page.
SELECT
    group_id AS name,
    row_number() OVER (
        ORDER BY count(*) FILTER (WHERE is_request) DESC, group_id
    ) - 1 AS ix
FROM measured
WHERE group_id IS NOT NULL
GROUP BY group_id
ORDER BY ix
LIMIT $most
