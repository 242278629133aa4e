-- Clients whose versions the broker refuses.
--
-- severity: 90
-- sure: likely: UNSUPPORTED_VERSION, and what the broker announced, are certain. A Kafka 4 broker closes the connection after a version that 4.0 removed (KIP-896), but it may close it for another reason.
-- why: These clients cannot work with this broker: they connect, send a request, are disconnected or wait in vain, and connect again.
-- repair: Upgrade the client library: Java clients from 2.1 on, librdkafka from 1.8.2 on, and others of their age, send newer versions. Remove settings that fix old versions (broker.version.fallback, api.version.request=false, api_version). A client that sends what the broker did not announce: one of another system than the broker, or with such a setting.
-- see: versions
-- tables: metadata
-- only if requests: bool_or(status = 'unanswered' OR (error_code = 35 AND api_key <> 18))
-- only if without_answer: bool_or(is_removed OR is_unannounced) OR (SELECT bool_or(error_code = 35 AND api_key <> 18) FROM requests)
-- parameter least_requests = 1: minimum number of refused requests
WITH refused AS (
    SELECT
        -- rows: request_id,
        client_id,
        client_ip,
        broker_ip,
        broker_port,
        request_start_ns,
        'broker' AS closed_by,
        true AS is_answered,
        concat(connection, ' ', connection_number) AS closed_connection,
        concat(api_name, ' v', api_version) AS version,
        '' AS announced
    FROM requests
    -- A client sends its newest ApiVersions first, and an older one after such a response.
    WHERE error_code = 35 AND api_key <> 18
    UNION ALL
    SELECT
        -- rows: request_id,
        client_id,
        client_ip,
        broker_ip,
        broker_port,
        request_start_ns,
        closed_by,
        false AS is_answered,
        concat(connection, ' ', connection_number) AS closed_connection,
        concat(api_name, ' v', api_version) AS version,
        CASE
            WHEN NOT is_unannounced THEN ''
            WHEN highest_version IS NULL
                THEN concat('; the broker announced no ', api_name)
            ELSE concat(
                '; the broker announced ', api_name, ' v', lowest_version, ' to ',
                highest_version
            )
        END AS announced
    FROM without_answer
    WHERE
        response_start_ns IS NULL
        AND ((is_removed AND closed_by = 'broker') OR (is_unannounced AND closed_by IS NOT NULL))
)
SELECT
    client_id,
    client_ip,
    broker_ip,
    broker_port,
    concat(
        number_text(count(*), 'request'), ' refused: ',
        names_text(version),
        -- Each announcement once.
        array_to_string(list_sort(list(DISTINCT announced)), ''),
        CASE
            WHEN count(*) FILTER (WHERE is_answered) = 0 THEN ''
            ELSE concat('; ', count(*) FILTER (WHERE is_answered), ' answered UNSUPPORTED_VERSION')
        END,
        CASE
            WHEN count(*) FILTER (WHERE NOT is_answered AND closed_by = 'broker') = 0 THEN ''
            ELSE concat(
                '; ',
                number_text(
                    count(DISTINCT closed_connection) FILTER (WHERE NOT is_answered AND closed_by = 'broker'),
                    'time'
                ),
                ' the broker closed the connection'
            )
        END,
        CASE
            WHEN count(*) FILTER (WHERE closed_by = 'client') = 0 THEN ''
            ELSE concat(
                '; ',
                number_text(count(DISTINCT closed_connection) FILTER (WHERE closed_by = 'client'), 'time'),
                ' the client closed it, after it got no answer'
            )
        END
    ) AS what,
    -- rows: list(request_id) AS request_ids,
    count(*) AS weight,
    min(request_start_ns) AS first_time_ns,
    max(request_start_ns) AS last_time_ns
FROM refused
GROUP BY client_id, client_ip, broker_ip, broker_port
HAVING count(*) >= $least_requests
