-- Connections that were cut while nothing went over them.
--
-- severity: 55
-- sure: likely: the silence before the end is that of a known limit (240, 540 or 600 s).
-- why: The next request on such a connection fails or waits for a timeout, and the client reconnects.
-- repair: 540 s is the client's connections.max.idle.ms, 600 s the broker's, 240 s that of Azure's load balancer: set the client's below the smallest on the way, or keep connections in use.
-- parameter tolerance_s = 5: seconds that the silence may differ from a limit
WITH last_words AS (
    SELECT
        connection,
        connection_number,
        max(coalesce(response_end_ns, request_end_ns)) AS last_ns,
        min(client_id) AS client_id
    FROM requests
    GROUP BY connection, connection_number
),
silent AS (
    SELECT
        connections.broker_ip,
        connections.broker_port,
        last_words.client_id,
        connections.closed_by,
        connections.end_ns,
        connections.first_packet,
        (connections.end_ns - last_words.last_ns) / 1e9 AS silence_s
    FROM connections
    JOIN last_words
        ON connections.connection = last_words.connection
        AND connections.connection_number = last_words.connection_number
    WHERE connections."end" IN ('fin', 'reset')
)
SELECT
    client_id,
    broker_ip,
    broker_port,
    concat(
        count(*), ' connections closed after ', CAST(round(min(silence_s)) AS BIGINT), ' to ',
        CAST(round(max(silence_s)) AS BIGINT), ' s of silence, ', count(*) FILTER (WHERE closed_by = 'broker'),
        ' by the other end'
    ) AS what,
    count(*) AS weight,
    min(end_ns) AS first_time_ns,
    max(end_ns) AS last_time_ns,
    min(first_packet) AS first_packet
FROM silent
WHERE
    abs(silence_s - 240) <= $tolerance_s
    OR abs(silence_s - 540) <= $tolerance_s
    OR abs(silence_s - 600) <= $tolerance_s
GROUP BY client_id, broker_ip, broker_port
ORDER BY weight DESC, client_id NULLS LAST, broker_ip, broker_port
