-- Connections that the broker closes instead of answering ApiVersions.
--
-- severity: 83
-- show: connections
-- sure: likely: the other end closed each connection at its first request, again and again, without a byte of an answer.
-- why: ApiVersions is the first request of every client since Kafka 0.10: these clients get no further, and connect again.
-- repair: A port of something else than Kafka, or of TLS: compare port and security.protocol with the listener's. A service that speaks only a part of Kafka, or a broker before 0.10: give the client its version (broker.version.fallback, api_version; Event Hubs needs the tier Standard and SASL_SSL). A proxy or firewall that looks into requests, or a limit of connections (max.connections, max.connections.per.ip) closes them too: read the log of the broker, which has a line for each if they get that far.
-- only if requests: count(*) FILTER (WHERE api_name = 'ApiVersions' AND status = 'unanswered') >= $least_connections
-- only if connections: count(*) FILTER (WHERE closed_by = 'broker' AND broker_payload_bytes = 0) >= $least_connections
-- parameter least_connections = 3: minimum number of such connections
-- parameter longest_s = 10: maximum seconds from the request to the end of such a connection; after longer waits see `unanswered`
WITH asked AS (
    -- A client may send SaslHandshake at once after it.
    SELECT
        connection,
        connection_number,
        max(CASE WHEN api_name = 'ApiVersions' THEN api_version END) AS api_version,
        max(request_end_ns) AS asked_ns
    FROM requests
    WHERE status <> 'orphan_response'
    GROUP BY connection, connection_number
    HAVING
        bool_and(status = 'unanswered')
        AND bool_and(api_name IN ('ApiVersions', 'SaslHandshake', 'SaslAuthenticate'))
        AND bool_or(api_name = 'ApiVersions')
),
closed AS (
    SELECT
        -- rows: concat(connections.connection, ' ', connections.connection_number) AS connection_key,
        connections.client_id,
        connections.client_ip,
        connections.broker_ip,
        connections.broker_port,
        asked.api_version,
        connections.closed_ns,
        connections.closed_ns - asked.asked_ns AS until_ns,
        connections."end",
        connections.start_ns
    FROM connections
    JOIN asked USING (connection, connection_number)
    WHERE
        connections.closed_by = 'broker'
        AND connections.closed_ns - asked.asked_ns <= $longest_s * 1000000000
        AND connections.broker_payload_bytes = 0
        -- It answers, and the capture lacks it.
        AND connections.broker_lost_bytes = 0
        AND connections.broker_packets > 0
        -- The failures of TLS have findings of their own.
        AND connections.tls_failure IS NULL
),
others AS (
    SELECT
        broker_ip,
        broker_port,
        count(*) FILTER (WHERE is_served) AS served
    FROM attempts
    GROUP BY broker_ip, broker_port
)
SELECT
    closed.client_id,
    closed.client_ip,
    closed.broker_ip,
    closed.broker_port,
    concat(
        number_text(count(*), 'connection'), ' in ', in_s(max(closed.start_ns) - min(closed.start_ns)),
        ' s closed at ApiVersions ',
        names_text(concat('v', closed.api_version)),
        ' without an answer: ', count(*) FILTER (WHERE closed."end" = 'reset'), ' by RST, ',
        count(*) FILTER (WHERE closed."end" <> 'reset'), ' by FIN, within ',
        in_ms(max(closed.until_ns)), ' ms; answers on ',
        number_text(max(others.served), 'other connection'), ' to this address'
    ) AS what,
    -- rows: list(closed.connection_key) AS connection_keys,
    count(*) AS weight,
    min(closed.start_ns) AS first_time_ns,
    max(closed.start_ns) AS last_time_ns
FROM closed
JOIN others USING (broker_ip, broker_port)
GROUP BY closed.client_id, closed.client_ip, closed.broker_ip, closed.broker_port
HAVING
    count(*) >= $least_connections
    -- A broker that stops closes all connections at once; these come again.
    AND max(closed.start_ns) > min(closed.closed_ns)
