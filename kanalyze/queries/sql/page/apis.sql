-- The most frequent APIs, and their numbers on the page; orphan responses have one number.
SELECT
    wire,
    api_key,
    api_name,
    row_number() OVER (
        ORDER BY
            count(*) FILTER (WHERE is_request) DESC,
            wire,
            api_key NULLS LAST,
            api_name NULLS LAST
    ) - 1 AS ix
FROM measured
GROUP BY wire, api_key, api_name
ORDER BY ix
LIMIT $most
