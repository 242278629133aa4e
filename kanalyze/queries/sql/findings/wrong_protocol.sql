-- Clients that speak TLS to a port without it, or plaintext to a port with TLS.
--
-- severity: 86
-- sure: likely: the broker closes the connection after the first bytes of TLS, or answers a request with a TLS alert.
-- why: The broker closes each such connection at once; the client cannot work, and retries.
-- repair: Set security.protocol of the client (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL) to that of the listener on the port that it uses, or use the port of the other listener.
-- show: connections
-- parameter least_connections = 1: minimum number of connections
WITH met AS (
    SELECT
        connection,
        connection_number,
        kind = 'tls_on_plaintext_port' AS is_tls
    FROM anomalies
    WHERE
        kind = 'tls_on_plaintext_port'
        -- The first bytes of an answer read as a size: 15 03 0x 00, an alert of TLS 1.0 to 1.3.
        OR (
            kind = 'implausible_size'
            AND stream_offset = 0
            AND detail IN ('size 352518400', 'size 352518656', 'size 352518912', 'size 352519168')
        )
),
of_connections AS (
    SELECT
        connections.client_id,
        connections.client_ip,
        connections.broker_ip,
        connections.broker_port,
        connections.start_ns,
        connections.first_packet,
        met.is_tls
    FROM connections
    JOIN met
        ON connections.connection = met.connection
        AND connections.connection_number = met.connection_number
)
SELECT
    client_id,
    client_ip,
    broker_ip,
    broker_port,
    concat(
        count(*), ' connections in ', round((max(start_ns) - min(start_ns)) / 1e9, 1), ' s that begin with ',
        CASE WHEN is_tls THEN 'TLS on a port without it' ELSE 'plaintext on a port of TLS' END
    ) AS what,
    count(*) AS weight,
    min(start_ns) AS first_time_ns,
    max(start_ns) AS last_time_ns,
    min(first_packet) AS first_packet
FROM of_connections
GROUP BY client_id, client_ip, broker_ip, broker_port, is_tls
HAVING count(*) >= $least_connections
ORDER BY weight DESC, client_id NULLS LAST, client_ip, broker_ip, broker_port, is_tls
