-- Requests that nobody acknowledges and that TCP retransmits in vain.
--
-- severity: 82
-- sure: likely: the client's TCP retransmitted the request several times, and nothing came back before it gave up.
-- why: A firewall, NAT or load balancer has dropped the idle connection without telling the ends, or the broker's machine is gone. The client waits for its request.timeout.ms before it reconnects.
-- repair: If the connection was idle before: set connections.max.idle.ms of the clients below the idle limit of that device, or keep connections in use; TCP keep-alives (socket.keepalive.enable) help if they are more frequent than the limit. If it was in use, check whether the broker's machine was up.
-- caused by broker_away: broker
-- tables: metadata
-- only if requests: bool_or(status = 'unanswered' AND api_name NOT IN ('JoinGroup', 'SyncGroup'))
-- only if connections: max(client_retransmitted_packets) >= $least_retransmissions
-- only if without_answer: max(CASE WHEN api_name NOT IN ('JoinGroup', 'SyncGroup') THEN client_retransmitted_packets END) >= $least_retransmissions
-- parameter least_retransmissions = 3: minimum number of packets that the client retransmitted
-- parameter least_wait_s = 1: minimum seconds without a response; for a Fetch, in addition to its max.wait
WITH resent AS (
    SELECT
        connection,
        connection_number,
        coalesce(closed_ns, end_ns) AS last_ns,
        client_retransmitted_packets AS retransmitted
    FROM connections
    -- Few of them: with all of the requests of the others, the rest takes ten times as long.
    JOIN (SELECT DISTINCT connection, connection_number FROM requests WHERE status = 'unanswered') AS silent
        USING (connection, connection_number)
    WHERE
        client_retransmitted_packets >= $least_retransmissions
        -- If the capture has gaps, or only one direction, the response may be in a missing part.
        AND client_lost_bytes = 0
        AND broker_lost_bytes = 0
        AND broker_packets > 0
),
spoken AS (
    SELECT
        -- rows: requests.request_id,
        requests.connection,
        requests.connection_number,
        client_id,
        api_name,
        broker_ip,
        broker_port,
        status,
        request_start_ns,
        request_end_ns,
        CAST(coalesce(max_wait_ms, 0) AS BIGINT) * 1000000 AS max_wait_ns,
        last_ns,
        retransmitted,
        max(coalesce(response_end_ns, request_end_ns)) OVER (
            PARTITION BY requests.connection, requests.connection_number
            ORDER BY request_start_ns
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_ns,
        max(response_end_ns) OVER (
            PARTITION BY requests.connection, requests.connection_number
        ) AS last_response_ns,
        max(latency_ns) OVER (
            PARTITION BY requests.connection, requests.connection_number, api_name
        ) AS longest_latency_ns
    FROM requests
    JOIN resent USING (connection, connection_number)
),
lost AS (
    SELECT
        *,
        CASE
            WHEN request_start_ns < before_ns THEN 0
            ELSE request_start_ns - before_ns
        END AS silence_ns,
        last_ns - request_end_ns AS waited_ns
    FROM spoken
    WHERE
        status = 'unanswered'
        -- A member of a group waits for the other members.
        AND api_name NOT IN ('JoinGroup', 'SyncGroup')
        -- A broker answers in order, so it could not answer this request before its last response.
        -- If this request has waited no longer since then than others of its kind, the capture may
        -- only have ended too early.
        AND last_ns - greatest(request_end_ns, coalesce(last_response_ns, 0))
        > coalesce(longest_latency_ns, 0)
        AND last_ns - greatest(request_end_ns, coalesce(last_response_ns, 0))
        >= $least_wait_s * 1000000000 + max_wait_ns
),
-- Retransmissions are counted once for a connection, however many of its requests are unanswered.
of_connections AS (
    SELECT
        client_id,
        api_name,
        broker_ip,
        broker_port,
        -- rows: list(request_id) AS request_ids,
        count(*) AS requests,
        max(waited_ns) AS waited_ns,
        max(silence_ns) AS silence_ns,
        max(retransmitted) AS retransmitted,
        min(request_start_ns) AS first_time_ns,
        max(request_start_ns) AS last_time_ns
    FROM lost
    GROUP BY connection, connection_number, client_id, api_name, broker_ip, broker_port
)
SELECT
    client_id,
    api_name,
    broker_ip,
    broker_port,
    concat(
        sum(requests), ' without an answer within ', in_s(max(waited_ns)),
        ' s, with ', number_text(sum(retransmitted), 'retransmission'),
        '; before, the connection was idle for ' || in_s(max(silence_ns)) || ' s'
    ) AS what,
    -- rows: flatten(list(request_ids)) AS request_ids,
    sum(requests) AS weight,
    min(first_time_ns) AS first_time_ns,
    max(last_time_ns) AS last_time_ns
FROM of_connections
GROUP BY client_id, api_name, broker_ip, broker_port
