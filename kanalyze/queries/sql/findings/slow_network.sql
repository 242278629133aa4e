-- Requests that are slow because of the network, not the broker.
--
-- severity: 50
-- sure: likely: TCP round trips between the capture point and both ends, and packets that were retransmitted or windows that were closed during these requests.
-- why: No change to the broker makes these requests faster.
-- repair: Look at the path: distance, retransmissions, a receiver whose window is closed. Move replicas or clients closer to each other; use larger socket buffers on long paths.
-- see: latency_parts
-- only if requests: count(*) FILTER (WHERE waited IS NOT TRUE AND CAST(total_time_ns AS DOUBLE) + coalesce(client_network_ns, 0) >= $least_latency_ms * 1000000 AND CAST(broker_network_ns AS DOUBLE) + coalesce(client_network_ns, 0) + retransmission_wait_ns + CASE WHEN retransmitted_packets > 0 OR zero_windows > 0 THEN CAST(coalesce(request_send_ns, 0) AS DOUBLE) + coalesce(response_send_ns, 0) ELSE 0 END >= $least_share * (CAST(total_time_ns AS DOUBLE) + coalesce(client_network_ns, 0))) >= $least_requests
-- parameter least_share = 0.5: minimum share of the time of a request that the network takes
-- parameter least_latency_ms = 5: minimum time of a request in ms
-- parameter least_requests = 20: minimum number of such requests
-- parameter least_part = 0.5: minimum share of such requests among those of a client to a broker
WITH divided AS (
    SELECT
        *,
        CAST(work_total_time_ns AS DOUBLE) + coalesce(client_network_ns, 0) AS whole_ns,
        CAST(broker_network_ns AS DOUBLE) + coalesce(client_network_ns, 0) AS round_trip_ns,
        -- Sending waits for the network if packets were lost, or if the receive window was closed.
        CAST(broker_network_ns AS DOUBLE) + coalesce(client_network_ns, 0) + retransmission_wait_ns
        + CASE
            WHEN retransmitted_packets > 0 OR zero_windows > 0
                THEN CAST(coalesce(request_send_ns, 0) AS DOUBLE) + coalesce(response_send_ns, 0)
            ELSE 0
        END AS network_ns
    FROM measured
    WHERE work_total_time_ns IS NOT NULL AND broker_network_ns IS NOT NULL
),
judged AS (
    SELECT
        *,
        network_ns >= $least_share * whole_ns
        AND whole_ns >= $least_latency_ms * 1000000 AS is_slow
    FROM divided
),
of_pairs AS (
    SELECT
        client_id,
        broker_ip,
        broker_port,
        -- rows: list(request_id) FILTER (WHERE is_slow) AS request_ids,
        count(*) AS requests,
        count(*) FILTER (WHERE is_slow) AS slow,
        avg(CASE WHEN is_slow THEN round_trip_ns END) AS round_trip_ns,
        avg(CASE WHEN is_slow THEN whole_ns END) AS whole_ns,
        count(*) FILTER (WHERE is_slow AND retransmitted_packets > 0) AS resent,
        count(*) FILTER (WHERE is_slow AND zero_windows > 0) AS closed,
        min(CASE WHEN is_slow THEN request_start_ns END) AS first_time_ns,
        max(CASE WHEN is_slow THEN request_start_ns END) AS last_time_ns
    FROM judged
    GROUP BY client_id, broker_ip, broker_port
)
SELECT
    client_id,
    broker_ip,
    broker_port,
    concat(
        slow, ' of ', requests, ' requests took ', in_ms(whole_ns),
        ' ms on average, of which round trips ', in_ms(round_trip_ns), ' ms; ',
        resent, ' had retransmissions, ', closed, ' a closed window'
    ) AS what,
    -- rows: request_ids,
    slow AS weight,
    first_time_ns,
    last_time_ns
FROM of_pairs
WHERE slow >= $least_requests AND slow >= $least_part * requests
