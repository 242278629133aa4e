-- Requests by API and version.
SELECT
    wire,
    api_key,
    api_name,
    api_version,
    count(*) AS requests
FROM measured
WHERE is_request
GROUP BY wire, api_key, api_name, api_version
ORDER BY wire, api_key NULLS LAST, api_name NULLS LAST, api_version NULLS LAST
