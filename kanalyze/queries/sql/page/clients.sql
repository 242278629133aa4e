-- The busiest client ids, and their numbers on the page.
SELECT
    client_id AS name,
    row_number() OVER (ORDER BY count(*) DESC, client_id NULLS LAST) - 1 AS ix
FROM measured
WHERE is_request
GROUP BY client_id
ORDER BY ix
LIMIT $most
