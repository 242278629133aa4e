-- Each client with its address, user and software, and the versions that it speaks.
--
-- Of those that are no clients but brokers and controllers, `traffic` says so, as in `flows`. A request
-- with UNSUPPORTED_VERSION as its error is refused.
--
-- only if requests: count(*) > 0
WITH spoken AS (
    SELECT
        client_id,
        client_ip,
        principal,
        client_software_name,
        client_software_version,
        concat(api_name, ' v', api_version) AS api,
        wire = 'kafka-0.7' OR api_version < min(first_version) AS is_old,
        min(CASE WHEN wire = 'kafka' THEN inner_traffic(api_key, client_id) END) AS inner_kind,
        sum(many) AS requests,
        sum(CASE WHEN is_error THEN many ELSE 0 END) AS errors,
        sum(refused_versions) AS refused
    FROM request_sums
    LEFT JOIN removed_versions USING (api_key)
    WHERE is_request
    GROUP BY
        client_id, client_ip, principal, client_software_name, client_software_version, wire, api_name, api_version
)
SELECT
    coalesce(min(inner_kind), 'client') AS traffic,
    client_id,
    client_ip,
    principal,
    client_software_name,
    client_software_version,
    sum(spoken.requests) AS requests,
    sum(errors) AS errors,
    list_sort(list(concat(api, ': ', requests))) AS versions,
    coalesce(list_sort(list(concat(api, ': ', refused)) FILTER (WHERE refused > 0)), []) AS refused,
    coalesce(list_sort(list(api) FILTER (WHERE is_old)), []) AS kafka_4_refuses
FROM spoken
GROUP BY client_id, client_ip, principal, client_software_name, client_software_version
ORDER BY
    min(inner_kind) NULLS FIRST, sum(spoken.requests) DESC, client_id NULLS LAST, client_ip, principal NULLS FIRST,
    client_software_name NULLS FIRST, client_software_version NULLS FIRST
LIMIT $most_keys
