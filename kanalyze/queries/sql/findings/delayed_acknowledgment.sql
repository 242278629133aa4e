-- Requests whose last part waits for an acknowledgment.
--
-- severity: 48
-- sure: likely: small requests take 40 or 200 ms from their first packet to their last, which are the times by which receivers delay acknowledgments.
-- why: The client's TCP holds the last part back until the first is acknowledged (Nagle's algorithm), and the broker's TCP delays the acknowledgment because it waits for the rest (delayed acknowledgment). Each such request is delayed by that time.
-- repair: Set TCP_NODELAY on the client's sockets (socket.nagle.disable=true in librdkafka, socketOptions in others), or use a client library that writes a request in one call, not its size or its header first.
-- see: latency_parts
-- only if requests: count(*) FILTER (WHERE request_bytes <= $largest_bytes AND (request_end_ns - request_start_ns BETWEEN 39000000 AND 40000000 + $longest_more_ms * 1000000 OR request_end_ns - request_start_ns BETWEEN 199000000 AND 200000000 + $longest_more_ms * 1000000)) >= $least_requests
-- parameter least_share = 0.01: minimum share of the client's requests
-- parameter least_requests = 5: minimum number of such requests
-- parameter largest_bytes = 20000: maximum size of a request; larger ones may need the time
-- parameter longest_more_ms = 9: maximum ms beyond 40 or 200 ms
WITH sent AS (
    SELECT
        -- rows: requests.request_id,
        requests.client_id,
        requests.client_ip,
        requests.request_start_ns,
        requests.request_end_ns - requests.request_start_ns AS sending_ns,
        -- Lost packets are also sent again after 200 ms.
        coalesce(connections.client_retransmitted_packets, 0) = 0
        AND connections.client_out_of_order_packets = 0
        AND requests.request_bytes <= $largest_bytes
        AND (
            sending_ns BETWEEN 39000000 AND 40000000 + $longest_more_ms * 1000000
            OR sending_ns BETWEEN 199000000 AND 200000000 + $longest_more_ms * 1000000
        ) AS is_late
    FROM requests
    JOIN connections USING (connection, connection_number)
    WHERE requests.request_start_ns IS NOT NULL
)
SELECT
    client_id,
    client_ip,
    concat(
        count(*) FILTER (WHERE is_late), ' of ', count(*), ' requests took ',
        CAST(
            round(percentile_disc(0.5) WITHIN GROUP (ORDER BY CASE WHEN is_late THEN sending_ns END) / 1e6)
            AS BIGINT
        ),
        ' ms to send, from the first packet to the last'
    ) AS what,
    -- rows: list(request_id) FILTER (WHERE is_late) AS request_ids,
    count(*) FILTER (WHERE is_late) AS weight,
    min(request_start_ns) FILTER (WHERE is_late) AS first_time_ns,
    max(request_start_ns) FILTER (WHERE is_late) AS last_time_ns
FROM sent
GROUP BY client_id, client_ip
HAVING
    count(*) FILTER (WHERE is_late) >= $least_requests
    AND count(*) FILTER (WHERE is_late) >= $least_share * count(*)
