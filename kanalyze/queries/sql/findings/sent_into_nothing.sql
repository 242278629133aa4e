-- Requests that nobody acknowledges and that TCP retransmits in vain.
--
-- severity: 82
-- sure: likely: the client's TCP retransmitted the request again and again, and nothing came back before it gave up.
-- why: A device between client and broker has dropped the idle connection, or the broker's machine is gone. The client waits for its request.timeout.ms before it reconnects.
-- repair: After an idle time, it is the idle limit of a firewall, a NAT or a load balancer: set connections.max.idle.ms of the clients below it, or keep connections in use; TCP keep-alives (socket.keepalive.enable) help if they are sent more often than that. Otherwise, check whether the broker's machine was running.
-- parameter least_retransmissions = 3: minimum number of packets that the client retransmitted
-- parameter least_wait_s = 1: minimum seconds that the client waited
WITH spoken AS (
    SELECT
        *,
        max(coalesce(response_end_ns, request_end_ns)) OVER (
            PARTITION BY connection, connection_number
            ORDER BY request_start_ns
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_ns
    FROM requests
),
lost AS (
    SELECT
        spoken.client_id,
        spoken.api_name,
        spoken.broker_ip,
        spoken.broker_port,
        spoken.request_start_ns,
        spoken.request_packet,
        CASE
            WHEN spoken.request_start_ns < spoken.before_ns THEN 0
            ELSE spoken.request_start_ns - spoken.before_ns
        END AS silence_ns,
        coalesce(connections.closed_ns, connections.end_ns) - spoken.request_end_ns AS waited_ns,
        connections.client_retransmitted_packets AS retransmitted
    FROM spoken
    JOIN connections
        ON spoken.connection = connections.connection
        AND spoken.connection_number = connections.connection_number
    WHERE
        spoken.status = 'unanswered'
        AND connections.client_retransmitted_packets >= $least_retransmissions
        AND connections.client_lost_bytes + connections.broker_lost_bytes = 0
)
SELECT
    client_id,
    api_name,
    broker_ip,
    broker_port,
    concat(
        count(*), ' without an answer within ', round(max(waited_ns) / 1e9, 1), ' s, with ',
        sum(retransmitted), ' retransmissions',
        CASE
            WHEN max(silence_ns) IS NULL THEN ''
            ELSE concat('; before, the connection was idle for ', round(max(silence_ns) / 1e9, 1), ' s')
        END
    ) AS what,
    count(*) AS weight,
    min(request_start_ns) AS first_time_ns,
    max(request_start_ns) AS last_time_ns,
    min(request_packet) AS first_packet
FROM lost
WHERE waited_ns >= $least_wait_s * 1000000000
GROUP BY client_id, api_name, broker_ip, broker_port
ORDER BY weight DESC, client_id NULLS LAST, api_name NULLS LAST, broker_ip, broker_port
