-- The requests with the highest latency, without those that waited on purpose.
--
-- If latencies are equal, the earlier request comes first.
--
-- only if requests: count(latency_ns) > 0

-- sessions: FROM (
SELECT
    capture,
    connection,
    connection_number,
    client_id,
    api_key,
    api_name,
    api_version,
    correlation_id,
    latency_ns,
    total_time_ns,
    request_start_ns,
    request_end_ns,
    response_start_ns,
    response_end_ns,
    request_packet,
    response_packet,
    request_bytes,
    response_bytes,
    capture_point,
    request_send_ns,
    broker_network_ns,
    retransmission_wait_ns,
    pipeline_wait_ns,
    broker_time_ns,
    response_send_ns,
    client_network_ns,
    retransmitted_packets,
    zero_windows,
    waited_ns,
    throttle_time_ms,
    status,
    error_name,
    -- sessions: session_list,
    partitions
FROM measured
WHERE work_latency_ns IS NOT NULL
ORDER BY
    work_latency_ns DESC,
    coalesce(request_start_ns, 0),
    coalesce(request_packet, 0),
    capture,
    connection,
    connection_number,
    coalesce(correlation_id, 0)
LIMIT $most
-- sessions: ) AS slow
-- sessions: LEFT JOIN session_lists USING (session_list)
-- sessions: SELECT slow.* EXCLUDE (session_list)
-- sessions: REPLACE (list_concat(slow.partitions, session_lists.partitions) AS partitions)
-- sessions: ORDER BY
-- sessions:     latency_ns DESC,
-- sessions:     coalesce(request_start_ns, 0),
-- sessions:     coalesce(request_packet, 0),
-- sessions:     capture,
-- sessions:     connection,
-- sessions:     connection_number,
-- sessions:     coalesce(correlation_id, 0)
