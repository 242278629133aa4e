-- Requests that were never answered.
--
-- severity: 80
-- sure: likely: no response was captured before the connection closed, and nothing of the connection is missing.
-- why: The client waits for its request.timeout.ms, closes the connection, and tries again elsewhere.
-- repair: Look at what the broker did at that time: a long garbage collection, a full request queue, a disk that hangs, a crash (kernel log, out of memory).
-- only if requests: bool_or(api_name NOT IN ('JoinGroup', 'SyncGroup') AND (status = 'unanswered' OR response_start_ns - request_end_ns >= $least_wait_s * 1000000000 + CAST(coalesce(max_wait_ms, 0) AS BIGINT) * 1000000))
-- only if connections: bool_or(closed_by IS NOT NULL)
-- parameter least_wait_s = 1: minimum seconds that the client waited; for a Fetch, in addition to its max.wait
-- parameter most_retransmissions = 2: maximum number of packets that the client retransmitted; with more it is `sent_into_nothing`
WITH waiting AS (
    SELECT
        requests.client_id,
        requests.api_name,
        requests.broker_ip,
        requests.broker_port,
        requests.request_start_ns,
        requests.request_packet,
        requests.response_start_ns,
        connections.closed_ns - requests.request_end_ns AS waited_ns,
        CAST(coalesce(requests.max_wait_ms, 0) AS BIGINT) * 1000000 AS held_ns,
        connections.client_retransmitted_packets,
        connections.closed_by,
        concat(requests.connection, ' ', requests.connection_number) AS closed_connection
    FROM requests
    JOIN connections USING (connection, connection_number)
    WHERE
        (
            requests.status = 'unanswered'
            -- A response after the client has closed the connection does not count.
            OR (requests.response_start_ns > connections.closed_ns AND connections.closed_by = 'client')
        )
        -- A member of a group waits for the other members.
        AND requests.api_name NOT IN ('JoinGroup', 'SyncGroup')
        -- If the capture has gaps, or only one direction, the response may be in a missing part.
        AND connections.client_lost_bytes = 0
        AND connections.broker_lost_bytes = 0
        -- A record of TLS that is cut short cannot be decrypted, so a response in it is missing too.
        AND NOT (coalesce(connections.tls_decrypted, false) AND connections.broker_snapped_bytes > 0)
        AND connections.broker_packets > 0
)
SELECT
    client_id,
    api_name,
    broker_ip,
    broker_port,
    concat(
        count(*), ' without an answer within ',
        CASE
            WHEN in_s(min(waited_ns)) < in_s(max(waited_ns))
                THEN concat(in_s(min(waited_ns)), ' to ')
            ELSE ''
        END,
        in_s(max(waited_ns)), ' s; then ',
        CASE
            WHEN count(*) FILTER (WHERE closed_by = 'broker') = 0 THEN 'the client closed the connection'
            WHEN count(*) FILTER (WHERE closed_by = 'client') = 0 THEN 'the broker closed the connection'
            ELSE concat(
                'the client closed ', count(DISTINCT closed_connection) FILTER (WHERE closed_by = 'client'),
                ' of the connections, the broker the others'
            )
        END,
        CASE
            WHEN count(response_start_ns) > 0
                THEN concat('; ', count(response_start_ns), ' answered after that')
            ELSE ''
        END,
        CASE
            WHEN max(client_retransmitted_packets) = 0
                THEN '; its TCP acknowledged them: the broker''s process hangs, not its machine or the network'
            ELSE ''
        END
    ) AS what,
    count(*) AS weight,
    min(request_start_ns) AS first_time_ns,
    max(request_start_ns) AS last_time_ns,
    min(request_packet) AS first_packet
FROM waiting
WHERE
    waited_ns >= $least_wait_s * 1000000000 + held_ns
    AND coalesce(client_retransmitted_packets, 0) <= $most_retransmissions
GROUP BY client_id, api_name, broker_ip, broker_port
ORDER BY weight DESC, client_id NULLS LAST, api_name NULLS LAST, broker_ip, broker_port
