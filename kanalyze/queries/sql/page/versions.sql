-- The most frequent versions of APIs, and their numbers on the page.
SELECT
    wire,
    api_key,
    api_version,
    row_number() OVER (
        ORDER BY count(*) DESC, wire, api_key NULLS LAST, api_version NULLS LAST
    ) - 1 AS ix
FROM measured
WHERE is_request
GROUP BY wire, api_key, api_version
ORDER BY ix
LIMIT $most
