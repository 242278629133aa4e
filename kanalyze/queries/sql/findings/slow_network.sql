-- Requests that are slow for the network, not for the broker.
--
-- severity: 50
-- sure: likely: the round trip of TCP between the capture point and the broker, against the latencies of the same connections.
-- why: Nothing that is done on the broker makes these requests faster.
-- repair: Look at the path: distance, retransmissions, a receiver whose window is closed; replicas or clients nearer to one another; larger socket buffers on long paths.
-- parameter least_share = 0.5: share of the median latency that the network takes, at least
-- parameter least_latency_ms = 5: median latency in ms, at least
-- parameter least_requests = 20: requests, at least
WITH of_connections AS (
    SELECT
        connection,
        connection_number,
        count(*) AS requests,
        min(client_id) AS client_id,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY work_latency_ns) AS latency_ns,
        min(request_start_ns) AS first_time_ns,
        max(request_start_ns) AS last_time_ns,
        min(request_packet) AS first_packet
    FROM measured
    WHERE work_latency_ns IS NOT NULL
    GROUP BY connection, connection_number
)
SELECT
    of_connections.client_id,
    connections.broker_ip,
    connections.broker_port,
    concat(
        'round trip to the broker ',
        round(avg(coalesce(broker_handshake_rtt_ns, broker_rtt_min_ns)) / 1e6, 1),
        ' ms of a latency of ', round(avg(of_connections.latency_ns) / 1e6, 1), ' ms; ',
        sum(
            coalesce(connections.client_retransmitted_packets, 0)
            + coalesce(connections.broker_retransmitted_packets, 0)
        ),
        ' packets sent again'
    ) AS what,
    sum(of_connections.requests) AS weight,
    min(of_connections.first_time_ns) AS first_time_ns,
    max(of_connections.last_time_ns) AS last_time_ns,
    min(of_connections.first_packet) AS first_packet
FROM of_connections
JOIN connections
    ON of_connections.connection = connections.connection
    AND of_connections.connection_number = connections.connection_number
WHERE
    -- The shortest: an acknowledgment may wait for data to go with.
    coalesce(broker_handshake_rtt_ns, broker_rtt_min_ns)
    >= $least_share * of_connections.latency_ns
    AND of_connections.latency_ns >= $least_latency_ms * 1000000
    AND of_connections.requests >= $least_requests
GROUP BY of_connections.client_id, connections.broker_ip, connections.broker_port
ORDER BY weight DESC, of_connections.client_id NULLS LAST, broker_ip, broker_port
