-- The names that occur: clients and their software, topics, brokers, groups, versions, errors.
--
-- `seconds` is the number of seconds in which they occur. UUIDs in client ids are replaced by `*`.
WITH seen AS (
    SELECT
        request_start_ns // 1000000000 AS second,
        without_uuids(client_id) AS client,
        client_software_name,
        client_software_version,
        principal,
        group_id,
        api_name,
        api_version,
        broker_ip,
        broker_port
    FROM requests
    WHERE status <> 'orphan_response'
),
named AS (
    SELECT
        second,
        kind,
        CASE kind
            WHEN 'client' THEN client
            WHEN 'software'
                THEN CASE
                    WHEN client_software_version IS NULL THEN client_software_name
                    ELSE concat(client_software_name, ' ', client_software_version)
                END
            WHEN 'user' THEN principal
            WHEN 'group' THEN group_id
            WHEN 'API' THEN api_name
            WHEN 'API version'
                THEN CASE WHEN api_name IS NOT NULL THEN concat(api_name, ' v', api_version) END
            ELSE address_text(broker_ip, broker_port)
        END AS name
    FROM seen
    CROSS JOIN (
        VALUES ('client'), ('software'), ('user'), ('group'), ('API'), ('API version'), ('broker')
    ) AS kinds (kind)
    UNION ALL
    SELECT
        second,
        'topic' AS kind,
        name
    FROM (
        SELECT DISTINCT
            request_id,
            request_start_ns // 1000000000 AS second,
            coalesce(topic, concat('id ', topic_id)) AS name
        FROM partitions
        WHERE is_record_api(api_name)
    ) AS of_topics
    UNION ALL
    SELECT
        second,
        'error' AS kind,
        name
    FROM (
        SELECT DISTINCT
            request_id,
            response_start_ns // 1000000000 AS second,
            concat(api_name, ' ', error_name) AS name
        FROM errors
    ) AS of_errors
)
SELECT
    kind,
    name,
    count(*) AS requests,
    count(DISTINCT second) AS seconds
FROM named
WHERE name IS NOT NULL
GROUP BY kind, name
ORDER BY requests DESC, kind, name
LIMIT $most_lines
