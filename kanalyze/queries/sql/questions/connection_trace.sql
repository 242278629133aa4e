-- Which requests went over one connection, in order?
--
-- The parameter is a connection as in other rows, such as 10.0.0.7:51812>10.0.0.2:9092. `at_ms` is
-- the time since the first request captured on it. Ports are used again: `connection_number`
-- distinguishes connections with the same pair of addresses. Packet numbers are those of the
-- capture (tcpdump, Wireshark). A response without its request has no request time, and is last.
SELECT
    connection_number,
    (request_start_ns - min(request_start_ns) OVER of_connection) / 1e6 AS at_ms,
    concat(api_name, ' v', api_version) AS request,
    correlation_id,
    request_bytes,
    response_bytes,
    latency_ns / 1e6 AS latency_ms,
    waited,
    status,
    error_name,
    capture,
    request_packet,
    response_packet
FROM requests
WHERE connection = $connection
WINDOW of_connection AS (PARTITION BY connection_number)
ORDER BY connection_number, request_start_ns NULLS LAST, request_packet, correlation_id
