-- Connections that were closed while they were idle.
--
-- severity: 55
-- show: connections
-- sure: likely: the other end closed them after an idle time that is a known limit (240, 540 or 600 s), or after the same idle time each time; or a reset was the answer to the first request after a long silence that few others survived. A machine that was restarted meanwhile looks the same as the latter.
-- why: The next request on such a connection fails or waits for a timeout, and the client reconnects.
-- repair: 600 s is the broker's connections.max.idle.ms, 240 s the limit of Azure's load balancer, 350 s that of AWS's network load balancer, which forgets connections silently and resets them at the next packet. Set connections.max.idle.ms of the clients (540 s) below the smallest limit on the path, or keep connections in use.
-- only if connections: bool_or(closed_by = 'broker')
-- parameter tolerance_s = 5: maximum seconds between the idle time and a known limit
-- parameter least_repeats = 3: minimum number of connections that were closed after the same idle time, if it is not a known limit
-- parameter least_silence_s = 2: minimum seconds of such an idle time
-- parameter same_share = 0.1: share by which equal idle times may differ
-- parameter least_forgotten_s = 60: minimum seconds of silence before a request that is answered by a reset
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
        -- rows: concat(connections.connection, ' ', connections.connection_number) AS connection_key,
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
compared AS (
    SELECT
        *,
        abs(silence_s - 240) <= $tolerance_s
        OR abs(silence_s - 540) <= $tolerance_s
        OR abs(silence_s - 600) <= $tolerance_s AS is_known,
        quantile_disc(silence_s, 0.5) FILTER (WHERE silence_s >= $least_silence_s) OVER (
            PARTITION BY client_id, broker_ip, broker_port
        ) AS usual_s
    FROM cut
    QUALIFY abs(silence_s - usual_s) <= $same_share * usual_s
),
of_idle AS (
    SELECT
        client_id,
        CAST(NULL AS VARCHAR) AS client_ip,
        broker_ip,
        broker_port,
        concat(
            number_text(count(*), 'connection'), ' closed by the other end after ',
            CASE
                WHEN round(min(silence_s) * 10) / 10 < round(max(silence_s) * 10) / 10
                    THEN concat(round(min(silence_s) * 10) / 10, ' to ')
            END,
            round(max(silence_s) * 10) / 10, ' s without packets'
        ) AS what,
        -- rows: list(connection_key) AS connection_keys,
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
),
-- The other way round: the device forgets the connection, and resets it at the next packet.
vain AS (
    SELECT
        requests.connection,
        requests.connection_number,
        requests.client_ip,
        requests.broker_ip,
        requests.broker_port,
        min(requests.client_id) AS client_id,
        min(requests.api_name) AS api_name,
        min(requests.request_start_ns) AS vain_ns,
        min(connections.first_packet) AS first_packet
    FROM requests
    JOIN connections USING (connection, connection_number)
    WHERE
        requests.status IN ('unanswered', 'one_way')
        AND connections.closed_by = 'broker'
        AND connections."end" = 'reset'
        -- The reset is the answer: it comes at once.
        AND connections.closed_ns - requests.request_end_ns BETWEEN 0 AND 1000000000
        -- The silence is one: nothing is missing from the capture, and nobody sent keep-alives.
        AND connections.client_lost_bytes = 0
        AND connections.broker_lost_bytes = 0
        AND coalesce(connections.client_keep_alives, 0) + coalesce(connections.broker_keep_alives, 0) = 0
    GROUP BY ALL
),
forgotten AS (
    SELECT
        vain.*,
        vain_ns - last_ns AS silence_ns
    FROM vain
    CROSS JOIN LATERAL (
        SELECT max(coalesce(response_end_ns, request_end_ns)) AS last_ns
        FROM requests
        WHERE
            requests.connection = vain.connection
            AND requests.connection_number = vain.connection_number
            AND request_start_ns < vain_ns
    ) AS before
    WHERE vain_ns - last_ns >= $least_forgotten_s * 1000000000
),
-- Evidence against: connections of the same client to the same broker on which a request was
-- answered after a silence.
gaps AS (
    SELECT
        client_ip,
        broker_ip,
        broker_port,
        status,
        request_start_ns - lag(coalesce(response_end_ns, request_end_ns)) OVER (
            PARTITION BY connection, connection_number ORDER BY request_start_ns
        ) AS silence_ns
    FROM requests
    WHERE
        concat(client_ip, ' ', broker_ip, ' ', broker_port)
        IN (SELECT concat(client_ip, ' ', broker_ip, ' ', broker_port) FROM forgotten)
),
shortest AS (
    SELECT
        client_ip,
        broker_ip,
        broker_port,
        min(silence_ns) AS silence_ns
    FROM forgotten
    GROUP BY client_ip, broker_ip, broker_port
),
survived AS (
    SELECT
        client_ip,
        broker_ip,
        broker_port,
        count(*) FILTER (WHERE gaps.silence_ns >= shortest.silence_ns) AS as_long,
        max(gaps.silence_ns) AS silence_ns
    FROM gaps
    JOIN shortest USING (client_ip, broker_ip, broker_port)
    WHERE gaps.status IN ('ok', 'error')
    GROUP BY client_ip, broker_ip, broker_port
),
of_forgotten AS (
    SELECT
        -- Many clients may pass through one device: it forgets the connections of all of them.
        CASE WHEN count(DISTINCT client_id) = 1 THEN min(client_id) END AS client_id,
        client_ip,
        broker_ip,
        broker_port,
        concat(
            number_text(count(*), 'connection'),
            CASE WHEN count(DISTINCT client_id) > 1 THEN concat(' of ', count(DISTINCT client_id), ' clients') END,
            ' reset by the other end at the next request (',
            names_text(api_name), ') after ',
            CASE
                WHEN in_s(min(forgotten.silence_ns)) < in_s(max(forgotten.silence_ns))
                    THEN concat(in_s(min(forgotten.silence_ns)), ' to ')
            END,
            in_s(max(forgotten.silence_ns)), ' s of silence',
            CASE
                WHEN max(survived.silence_ns) >= 1000000000
                    THEN concat(
                        '; the longest silence before an answer was ',
                        in_s(max(survived.silence_ns)), ' s'
                    )
            END
        ) AS what,
        -- rows: list(concat(forgotten.connection, ' ', forgotten.connection_number)) AS connection_keys,
        count(*) AS weight,
        min(vain_ns) AS first_time_ns,
        max(vain_ns) AS last_time_ns,
        min(first_packet) AS first_packet
    FROM forgotten
    LEFT JOIN survived USING (client_ip, broker_ip, broker_port)
    GROUP BY client_ip, broker_ip, broker_port
    HAVING
        count(*) > coalesce(max(survived.as_long), 0)
        AND (
            count(*) >= $least_repeats
            -- The smallest known limit.
            OR max(forgotten.silence_ns) >= (240 - $tolerance_s) * 1000000000
        )
)
SELECT * FROM of_idle
UNION ALL
SELECT * FROM of_forgotten
