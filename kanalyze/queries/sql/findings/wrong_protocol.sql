-- Clients that speak TLS to a port without it, or plaintext to a port with TLS.
--
-- severity: 86
-- sure: likely: the broker closes the connection after the first bytes of TLS, on a port where no other connection speaks it, or answers a request with a TLS alert.
-- why: The broker closes each such connection at once; the client cannot work, and retries.
-- repair: Set security.protocol of the client (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL) to that of the listener on the port that it uses, or use the port of the other listener.
-- show: connections
-- parameter least_connections = 1: minimum number of connections
WITH of_tls AS (
    SELECT broker_ip, broker_port
    FROM connections
    WHERE tls_version IS NOT NULL
    GROUP BY broker_ip, broker_port
)
SELECT
    client_id,
    client_ip,
    connections.broker_ip,
    connections.broker_port,
    concat(
        count(*), CASE WHEN count(*) = 1 THEN ' connection' ELSE ' connections' END, ' in ',
        round((max(start_ns) - min(start_ns)) / 1e9 * 10) / 10,
        CASE WHEN count(*) = 1 THEN ' s that begins with ' ELSE ' s that begin with ' END,
        CASE
            WHEN tls_failure = 'tls_on_plaintext_port' THEN 'TLS on a port without it'
            ELSE 'plaintext on a port of TLS'
        END
    ) AS what,
    count(*) AS weight,
    min(start_ns) AS first_time_ns,
    max(start_ns) AS last_time_ns,
    min(first_packet) AS first_packet
FROM connections
LEFT JOIN of_tls
    ON of_tls.broker_ip = connections.broker_ip AND of_tls.broker_port = connections.broker_port
WHERE
    tls_failure = 'plaintext_on_tls_port'
    OR (tls_failure = 'tls_on_plaintext_port' AND of_tls.broker_port IS NULL)
GROUP BY client_id, client_ip, connections.broker_ip, connections.broker_port, tls_failure
HAVING count(*) >= $least_connections
ORDER BY
    weight DESC, client_id NULLS LAST, client_ip, connections.broker_ip, connections.broker_port,
    tls_failure
