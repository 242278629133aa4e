-- The addresses, software and users of each client id.
--
-- only if requests: count(*) > 0
SELECT
    client_id,
    client_ip,
    client_software_name,
    client_software_version,
    principal
FROM request_sums
WHERE is_request
GROUP BY client_id, client_ip, client_software_name, client_software_version, principal
ORDER BY
    client_id NULLS LAST,
    client_ip,
    client_software_name NULLS LAST,
    client_software_version NULLS LAST,
    principal NULLS LAST
