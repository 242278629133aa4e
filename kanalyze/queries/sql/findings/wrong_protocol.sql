-- Clients that speak TLS to a port without it, or plaintext to a port with TLS.
--
-- severity: 86
-- sure: likely: the broker closes the connection after the first bytes of TLS, on a port where no other connection speaks it, or answers a request with a TLS alert.
-- why: The broker closes each such connection at once; the client cannot work, and retries.
-- repair: Set security.protocol of the client (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL) to that of the listener on the port that it uses, or use the port of the other listener.
-- show: connections
-- only if connections: bool_or(tls_failure IS NOT NULL)
-- parameter least_connections = 1: minimum number of connections
SELECT
    client_id,
    client_ip,
    connections.broker_ip,
    connections.broker_port,
    concat(
        number_text(count(*), 'connection'), ' in ',
        in_s(max(start_ns) - min(start_ns)),
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
LEFT JOIN tls_ports USING (broker_ip, broker_port)
WHERE
    tls_failure = 'plaintext_on_tls_port'
    OR (tls_failure = 'tls_on_plaintext_port' AND tls_ports.broker_port IS NULL)
GROUP BY client_id, client_ip, connections.broker_ip, connections.broker_port, tls_failure
HAVING count(*) >= $least_connections
ORDER BY
    weight DESC, client_id NULLS LAST, client_ip, connections.broker_ip, connections.broker_port,
    tls_failure
