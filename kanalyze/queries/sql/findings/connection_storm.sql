-- Clients that connect over and over.
--
-- severity: 65
-- sure: certain: every connection was seen.
-- why: Each connection costs the broker a handshake, perhaps TLS and a login, and threads that do nothing else meanwhile.
-- repair: Keep one client for the life of the process instead of one per request; where logins fail, repair the credentials and raise reconnect.backoff.max.ms.
-- parameter least_per_s = 1: connections per second, at least
-- parameter least_connections = 30: connections, at least
WITH counted AS (
    SELECT
        client_ip,
        min(client_id) AS client_id,
        count(*) AS connections,
        avg(requests) AS requests_each,
        min(start_ns) AS first_time_ns,
        max(start_ns) AS last_time_ns,
        min(first_packet) AS first_packet
    FROM connections
    WHERE protocol IN ('kafka', 'kafka-0.7', 'tls')
    GROUP BY client_ip, client_id
)
SELECT
    client_id,
    client_ip,
    concat(
        connections, ' connections in ', round((last_time_ns - first_time_ns) / 1e9, 1), ' s, ',
        round(coalesce(requests_each, 0), 1), ' requests on each'
    ) AS what,
    connections AS weight,
    first_time_ns,
    last_time_ns,
    first_packet
FROM counted
WHERE
    connections >= $least_connections
    AND connections * 1000000000.0 >= $least_per_s * (last_time_ns - first_time_ns)
ORDER BY weight DESC, client_id NULLS LAST, client_ip
