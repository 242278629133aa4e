-- Which clients are there, and which versions of which APIs do they speak?
--
-- A line for each client id at an address with its user and its software; those of brokers and
-- controllers come last (`traffic`, as in `flows`). `versions` has the API, the version, and how often it
-- was sent; `refused` the same of requests that a broker answered with UNSUPPORTED_VERSION. `kafka_4_refuses`
-- are APIs and versions that Kafka 4.0 does not accept, whatever this broker says.
WITH spoken AS (
    SELECT
        coalesce(
            inner_connections.traffic,
            CASE WHEN is_replica_client(client_id) THEN 'replica' ELSE 'client' END
        ) AS of_traffic,
        client_id,
        client_ip,
        principal,
        client_software_name,
        client_software_version,
        concat(api_name, ' v', api_version) AS api,
        api_name,
        api_version,
        wire = 'kafka-0.7' OR api_version < first_version AS is_old,
        count(*) AS requests,
        count(*) FILTER (WHERE status = 'error') AS errors,
        count(*) FILTER (WHERE error_code = 35) AS refused,
        min(request_start_ns) AS first_ns,
        max(request_start_ns) AS last_ns
    FROM requests
    LEFT JOIN inner_connections USING (connection, connection_number)
    LEFT JOIN removed_versions USING (api_key)
    WHERE status <> 'orphan_response'
    GROUP BY
        of_traffic, client_id, client_ip, principal, client_software_name, client_software_version,
        wire, api_name, api_version, first_version
)
SELECT
    of_traffic AS traffic,
    client_id,
    client_ip,
    principal,
    client_software_name,
    client_software_version,
    CAST(sum(requests) AS BIGINT) AS requests,
    CAST(sum(errors) AS BIGINT) AS errors,
    list_sort(list(concat(api, ': ', requests))) AS versions,
    coalesce(list_sort(list(concat(api, ': ', refused)) FILTER (WHERE refused > 0)), []) AS refused,
    coalesce(list_sort(list(api) FILTER (WHERE is_old)), []) AS kafka_4_refuses,
    make_timestamp(min(first_ns) // 1000) AS first_time,
    make_timestamp(max(last_ns) // 1000) AS last_time
FROM spoken
GROUP BY
    of_traffic, client_id, client_ip, principal, client_software_name, client_software_version
ORDER BY
    of_traffic = 'client' DESC, of_traffic, sum(spoken.requests) DESC, client_id NULLS LAST, client_ip, principal NULLS FIRST,
    client_software_name NULLS FIRST, client_software_version NULLS FIRST
