-- Requests by API and version.
--
-- only if requests: count(*) > 0
SELECT
    wire,
    api_key,
    api_name,
    api_version,
    sum(many) AS requests
FROM request_sums
WHERE is_request
GROUP BY wire, api_key, api_name, api_version
ORDER BY wire, api_key NULLS LAST, api_name NULLS LAST, api_version NULLS LAST
