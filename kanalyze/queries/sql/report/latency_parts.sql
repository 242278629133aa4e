-- The parts of the time of requests, by API and broker: sending, network, broker.
--
-- These are the requests whose parts are known and that did not wait on purpose. Of one that took
-- longer than its longest wait, that wait (`waited_ns`) is left out. The parts add up to
-- `total_time_ns`, except `client_network_ns`, which is not included. `per_mille` is the share of
-- the sum of `total_time_ns`. Each line is for one capture point, because the network is divided
-- there.
--
-- only if requests: count(broker_time_ns) > 0
SELECT
    api_name,
    broker_ip,
    broker_port,
    capture_point,
    requests,
    with_retransmissions,
    with_zero_windows,
    spent_ns // requests AS "total_time_ns.mean",
    request_send_ns // nullif(request_send_ns_count, 0) AS "request_send_ns.mean",
    request_send_ns // nullif(spent_ns // 1000, 0) AS "request_send_ns.per_mille",
    broker_network_ns // nullif(broker_network_ns_count, 0) AS "broker_network_ns.mean",
    broker_network_ns // nullif(spent_ns // 1000, 0) AS "broker_network_ns.per_mille",
    retransmission_wait_ns // nullif(retransmission_wait_ns_count, 0) AS "retransmission_wait_ns.mean",
    retransmission_wait_ns // nullif(spent_ns // 1000, 0) AS "retransmission_wait_ns.per_mille",
    pipeline_wait_ns // nullif(pipeline_wait_ns_count, 0) AS "pipeline_wait_ns.mean",
    pipeline_wait_ns // nullif(spent_ns // 1000, 0) AS "pipeline_wait_ns.per_mille",
    broker_time_ns // nullif(broker_time_ns_count, 0) AS "broker_time_ns.mean",
    broker_time_ns // nullif(spent_ns // 1000, 0) AS "broker_time_ns.per_mille",
    response_send_ns // nullif(response_send_ns_count, 0) AS "response_send_ns.mean",
    response_send_ns // nullif(spent_ns // 1000, 0) AS "response_send_ns.per_mille",
    client_network_ns // nullif(client_network_ns_count, 0) AS "client_network_ns.mean"
FROM latency_part_sums
ORDER BY requests DESC, api_name NULLS LAST, broker_ip, broker_port, capture_point NULLS LAST
LIMIT $most_keys
