-- The names that occur: clients and their software, topics, brokers, groups, versions, errors.
--
-- `seconds` is the number of seconds in which they occur. UUIDs in client ids are replaced by `*`.
WITH seen AS (
    SELECT
        request_start_ns // 1000000000 AS second,
        regexp_replace(
            client_id,
            '[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}',
            '*',
            'g'
        ) AS client,
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
    SELECT second, 'client' AS kind, client AS name FROM seen
    UNION ALL
    SELECT
        second,
        'software' AS kind,
        CASE
            WHEN client_software_version IS NULL THEN client_software_name
            ELSE concat(client_software_name, ' ', client_software_version)
        END AS name
    FROM seen
    UNION ALL
    SELECT second, 'user' AS kind, principal AS name FROM seen
    UNION ALL
    SELECT second, 'group' AS kind, group_id AS name FROM seen
    UNION ALL
    SELECT
        second,
        'API version' AS kind,
        CASE WHEN api_name IS NOT NULL THEN concat(api_name, ' v', api_version) END AS name
    FROM seen
    UNION ALL
    SELECT second, 'API' AS kind, api_name AS name FROM seen
    UNION ALL
    SELECT
        second,
        'broker' AS kind,
        CASE
            WHEN broker_ip LIKE '%:%' THEN concat('[', broker_ip, ']:', broker_port)
            ELSE concat(broker_ip, ':', broker_port)
        END AS name
    FROM seen
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
        WHERE api_name IN ('Produce', 'MultiProduce', 'Fetch', 'MultiFetch', 'ShareFetch')
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
