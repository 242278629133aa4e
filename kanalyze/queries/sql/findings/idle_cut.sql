-- Connections that were closed while they were idle.
--
-- severity: 55
-- show: connections
-- sure: likely: the other end closed them after an idle time that is a known limit (240, 540 or 600 s), or after the same idle time each time.
-- why: The next request on such a connection fails or waits for a timeout, and the client reconnects.
-- repair: 600 s is the broker's connections.max.idle.ms, 240 s the limit of Azure's load balancer. Set connections.max.idle.ms of the clients (540 s) below the smallest limit on the path, or keep connections in use.
-- only if connections: bool_or(closed_by = 'broker')
-- parameter tolerance_s = 5: maximum seconds between the idle time and a known limit
-- parameter least_repeats = 3: minimum number of connections that were closed after the same idle time, if it is not a known limit
-- parameter least_silence_s = 2: minimum seconds of such an idle time
-- parameter same_share = 0.1: share by which equal idle times may differ
WITH last_words AS (
    SELECT
        connection,
        connection_number,
        max(coalesce(response_end_ns, request_end_ns)) AS last_ns,
        min(client_id) AS client_id
    FROM requests
    GROUP BY connection, connection_number
),
cut AS (
    SELECT
        connections.broker_ip,
        connections.broker_port,
        last_words.client_id,
        connections.closed_ns,
        connections.first_packet,
        (connections.closed_ns - last_words.last_ns) / 1e9 AS silence_s
    FROM connections
    JOIN last_words USING (connection, connection_number)
    -- A client may close connections that it does not need.
    WHERE connections.closed_by = 'broker'
),
usual AS (
    SELECT
        client_id,
        broker_ip,
        broker_port,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY silence_s) AS silence_s
    FROM cut
    WHERE silence_s >= $least_silence_s
    GROUP BY client_id, broker_ip, broker_port
),
compared AS (
    SELECT
        cut.*,
        abs(cut.silence_s - 240) <= $tolerance_s
        OR abs(cut.silence_s - 540) <= $tolerance_s
        OR abs(cut.silence_s - 600) <= $tolerance_s AS is_known
    FROM cut
    JOIN usual
        ON cut.client_id IS NOT DISTINCT FROM usual.client_id
        AND cut.broker_ip = usual.broker_ip
        AND cut.broker_port = usual.broker_port
    WHERE abs(cut.silence_s - usual.silence_s) <= $same_share * usual.silence_s
)
SELECT
    client_id,
    broker_ip,
    broker_port,
    concat(
        number_text(count(*), 'connection'),
        ' closed by the other end after ',
        CASE
            WHEN round(min(silence_s) * 10) / 10 < round(max(silence_s) * 10) / 10
                THEN concat(round(min(silence_s) * 10) / 10, ' to ')
            ELSE ''
        END,
        round(max(silence_s) * 10) / 10, ' s without packets'
    ) AS what,
    count(*) AS weight,
    min(closed_ns) AS first_time_ns,
    max(closed_ns) AS last_time_ns,
    min(first_packet) AS first_packet
FROM compared
GROUP BY client_id, broker_ip, broker_port
HAVING
    count(*) FILTER (WHERE is_known) > 0
    OR (
        count(*) >= $least_repeats
        -- A broker that shuts down closes all connections at once.
        AND max(closed_ns) - min(closed_ns) >= $least_silence_s * 1000000000
    )
ORDER BY weight DESC, client_id NULLS LAST, broker_ip, broker_port
