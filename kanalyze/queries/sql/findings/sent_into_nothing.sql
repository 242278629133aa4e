-- Requests that nobody acknowledges and that TCP retransmits in vain.
--
-- severity: 82
-- sure: likely: TCP of the client sent the request again and again, and nothing came back before it gave up.
-- why: What is between client and broker has forgotten the connection while it was silent, or the broker's machine is gone. The client waits for its request.timeout.ms before it connects again.
-- repair: After a silence it is the idle limit of a firewall, a NAT or a load balancer: set connections.max.idle.ms of the clients below it, or keep connections in use; TCP keep-alives (socket.keepalive.enable) help where they come more often than that. Without one, look whether the broker's machine was there.
-- parameter least_retransmissions = 3: packets that the client sent again, at least
-- parameter least_wait_s = 1: seconds that it had been waited for, at least
WITH resent AS (
    SELECT
        connection,
        connection_number,
        coalesce(closed_ns, end_ns) AS last_ns,
        client_retransmitted_packets AS retransmitted
    FROM connections
    WHERE
        client_retransmitted_packets >= $least_retransmissions
        AND client_lost_bytes + broker_lost_bytes = 0
),
spoken AS (
    SELECT
        client_id,
        api_name,
        broker_ip,
        broker_port,
        status,
        request_start_ns,
        request_end_ns,
        request_packet,
        last_ns,
        retransmitted,
        max(coalesce(response_end_ns, request_end_ns)) OVER (
            PARTITION BY requests.connection, requests.connection_number
            ORDER BY request_start_ns
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_ns
    FROM requests
    JOIN resent
        ON requests.connection = resent.connection
        AND requests.connection_number = resent.connection_number
),
lost AS (
    SELECT
        client_id,
        api_name,
        broker_ip,
        broker_port,
        request_start_ns,
        request_packet,
        CASE
            WHEN request_start_ns < before_ns THEN 0
            ELSE request_start_ns - before_ns
        END AS silence_ns,
        last_ns - request_end_ns AS waited_ns,
        retransmitted
    FROM spoken
    WHERE status = 'unanswered'
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
