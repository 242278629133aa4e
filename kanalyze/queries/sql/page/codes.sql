-- The most frequent error codes, and their numbers on the page.
SELECT
    error_code,
    min(error_name) AS error_name,
    row_number() OVER (ORDER BY count(*) DESC, error_code) - 1 AS ix
FROM errors
GROUP BY error_code
ORDER BY ix
LIMIT $most
