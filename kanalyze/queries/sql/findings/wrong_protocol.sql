-- Clients that speak another protocol than the port that they connect to.
--
-- severity: 86
-- sure: likely: what one end sends is of another protocol, and the other end closes the connection or answers in its own. TLS is one where no other connection to that port speaks it.
-- why: Each such connection is closed at once, or answered by an error; the client cannot work, and retries.
-- repair: TLS: set security.protocol of the client (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL) to that of the listener on the port that it uses, or use the port of the other listener. The server speaks HTTP (Kafka reads its first bytes as a size of 1213486160): bootstrap.servers has the port of a web server or proxy, of a REST proxy, a schema registry or a metrics exporter. HTTP on a port of Kafka (GET is a size of 1195725856 in the broker's log): a health check, a scraper of metrics or a browser has the broker's port. GSSAPI: the listener is not one of SASL, or the client skips SaslHandshake: compare security.protocol and sasl.mechanism with the listener's.
-- show: connections
-- caused by login_failures: client_id
-- only if connections: bool_or(tls_failure IS NOT NULL OR protocol NOT IN ('kafka', 'kafka-0.7', 'tls', 'none', 'unknown', 'zeros') OR (requests <= 3 AND closed_by = 'broker' AND decoded_bytes < client_payload_bytes + broker_payload_bytes))
-- parameter least_connections = 1: minimum number of connections
WITH answered AS (
    SELECT
        broker_ip,
        broker_port,
        count(response_start_ns) AS responses
    FROM requests
    WHERE status IN ('ok', 'error')
    GROUP BY broker_ip, broker_port
),
said AS (
    SELECT
        anomalies.connection,
        anomalies.connection_number,
        max(CASE
            WHEN detail LIKE 'request header: a token of GSSAPI%' THEN 'the client sends GSSAPI tokens'
            ELSE regexp_extract(detail, '(the (server|client) speaks .+)$', 1)
        END) AS words,
        bool_or(coalesce(requests.api_name = 'SaslHandshake', false)) AS has_handshake,
        bool_or(coalesce(requests.api_name = 'ApiVersions', false)) AS has_versions
    FROM anomalies
    LEFT JOIN requests USING (connection, connection_number)
    WHERE
        (kind = 'implausible_size' AND regexp_matches(detail, ': the (server|client) speaks .+$'))
        OR (kind = 'malformed_body' AND detail LIKE 'request header: a token of GSSAPI%')
    GROUP BY ALL
),
found AS (
    SELECT
        -- rows: concat(connections.connection, ' ', connections.connection_number) AS connection_key,
        connections.client_id,
        connections.client_ip,
        connections.broker_ip,
        connections.broker_port,
        connections.start_ns,
        answered.responses,
        CASE
            WHEN connections.tls_failure = 'plaintext_on_tls_port' THEN 'plaintext on a port of TLS'
            WHEN connections.tls_failure = 'tls_on_plaintext_port' AND tls_ports.broker_port IS NULL
                THEN 'TLS on a port without it'
            WHEN
                connections.protocol NOT IN ('kafka', 'kafka-0.7', 'tls', 'none', 'unknown', 'zeros')
                AND connections.closed_by = 'broker'
                AND connections.client_payload_bytes > 0
                AND connections.broker_payload_bytes = 0
                -- Where nobody speaks Kafka, its own port says what the server is, or a token in a frame.
                AND (
                    answered.responses > 0
                    OR connections.broker_port = 9092
                    OR connections.protocol = 'gssapi'
                )
                THEN concat(upper(connections.protocol), ' on a port of Kafka')
        END AS begin_with,
        CASE
            WHEN connections.tls_failure IS NOT NULL THEN NULL
            WHEN said.words LIKE '%GSSAPI%' AND connections.opened_by IS NULL THEN NULL
            WHEN said.words LIKE '%GSSAPI%'
                THEN concat(
                    said.words,
                    CASE WHEN said.has_versions THEN ' after ApiVersions' END,
                    CASE WHEN NOT said.has_handshake THEN ', without a SaslHandshake' END
                )
            ELSE said.words
        END AS words
    FROM connections
    LEFT JOIN tls_ports USING (broker_ip, broker_port)
    LEFT JOIN answered USING (broker_ip, broker_port)
    LEFT JOIN said
        ON connections.connection = said.connection
        AND connections.connection_number = said.connection_number
        AND connections.requests <= 3
        AND connections.closed_by = 'broker'
        AND connections.decoded_bytes
        < connections.client_payload_bytes + connections.broker_payload_bytes
)
SELECT
    client_id,
    client_ip,
    broker_ip,
    broker_port,
    concat(
        number_text(count(*), 'connection'), ' in ', in_s(max(start_ns) - min(start_ns)),
        CASE
            WHEN begin_with IS NULL
                THEN concat(' s: ', words, '; ', number_text(coalesce(max(responses), 0), 'request'), ' to this address answered')
            WHEN count(*) = 1 THEN concat(' s that begins with ', begin_with)
            ELSE concat(' s that begin with ', begin_with)
        END
    ) AS what,
    -- rows: list(connection_key) AS connection_keys,
    count(*) AS weight,
    min(start_ns) AS first_time_ns,
    max(start_ns) AS last_time_ns
FROM found
WHERE begin_with IS NOT NULL OR words IS NOT NULL
GROUP BY client_id, client_ip, broker_ip, broker_port, begin_with, words
HAVING count(*) >= $least_connections
