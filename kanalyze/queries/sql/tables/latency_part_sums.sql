-- The parts of the time of requests, summed up by API, broker and capture point.
--
-- See `latency_parts` of the report.
SELECT
    api_name,
    broker_ip,
    broker_port,
    capture_point,
    count(*) AS requests,
    count(*) FILTER (WHERE retransmitted_packets > 0) AS with_retransmissions,
    count(*) FILTER (WHERE zero_windows > 0) AS with_zero_windows,
    sum(total_time_ns) - coalesce(sum(waited_ns), 0) AS spent_ns,
    sum(request_send_ns) AS request_send_ns,
    count(request_send_ns) AS request_send_ns_count,
    sum(broker_network_ns) AS broker_network_ns,
    count(broker_network_ns) AS broker_network_ns_count,
    sum(retransmission_wait_ns) AS retransmission_wait_ns,
    count(retransmission_wait_ns) AS retransmission_wait_ns_count,
    sum(pipeline_wait_ns) AS pipeline_wait_ns,
    count(pipeline_wait_ns) AS pipeline_wait_ns_count,
    sum(broker_time_ns) AS broker_time_ns,
    count(broker_time_ns) AS broker_time_ns_count,
    sum(response_send_ns) AS response_send_ns,
    count(response_send_ns) AS response_send_ns_count,
    sum(client_network_ns) AS client_network_ns,
    count(client_network_ns) AS client_network_ns_count
FROM measured
WHERE
    NOT has_waited
    AND total_time_ns IS NOT NULL
    AND broker_time_ns IS NOT NULL
    AND response_send_ns IS NOT NULL
GROUP BY api_name, broker_ip, broker_port, capture_point
