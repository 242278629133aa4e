-- The parts of the time of requests, by API and broker: sending, network, broker.
--
-- These are the requests whose parts are known and that did not wait on purpose. Of one that took
-- longer than its longest wait, that wait (`waited_ns`) is left out. The parts add up to
-- `total_time_ns`, except `client_network_ns`, which is not included. `per_mille` is the share of
-- the sum of `total_time_ns`. Each line is for one capture point, because the network is divided
-- there.
SELECT
    api_name,
    broker_ip,
    broker_port,
    capture_point,
    count(*) AS requests,
    count(*) FILTER (WHERE retransmitted_packets > 0) AS with_retransmissions,
    count(*) FILTER (WHERE zero_windows > 0) AS with_zero_windows,
    sum(total_time_ns - coalesce(waited_ns, 0)) // count(total_time_ns) AS "total_time_ns.mean",
    sum(request_send_ns) // nullif(count(request_send_ns), 0) AS "request_send_ns.mean",
    sum(request_send_ns) // nullif(sum(total_time_ns - coalesce(waited_ns, 0)) // 1000, 0) AS "request_send_ns.per_mille",
    sum(broker_network_ns) // nullif(count(broker_network_ns), 0) AS "broker_network_ns.mean",
    sum(broker_network_ns) // nullif(sum(total_time_ns - coalesce(waited_ns, 0)) // 1000, 0)
        AS "broker_network_ns.per_mille",
    sum(retransmission_wait_ns) // nullif(count(retransmission_wait_ns), 0) AS "retransmission_wait_ns.mean",
    sum(retransmission_wait_ns) // nullif(sum(total_time_ns - coalesce(waited_ns, 0)) // 1000, 0)
        AS "retransmission_wait_ns.per_mille",
    sum(pipeline_wait_ns) // nullif(count(pipeline_wait_ns), 0) AS "pipeline_wait_ns.mean",
    sum(pipeline_wait_ns) // nullif(sum(total_time_ns - coalesce(waited_ns, 0)) // 1000, 0) AS "pipeline_wait_ns.per_mille",
    sum(broker_time_ns) // nullif(count(broker_time_ns), 0) AS "broker_time_ns.mean",
    sum(broker_time_ns) // nullif(sum(total_time_ns - coalesce(waited_ns, 0)) // 1000, 0) AS "broker_time_ns.per_mille",
    sum(response_send_ns) // nullif(count(response_send_ns), 0) AS "response_send_ns.mean",
    sum(response_send_ns) // nullif(sum(total_time_ns - coalesce(waited_ns, 0)) // 1000, 0) AS "response_send_ns.per_mille",
    sum(client_network_ns) // nullif(count(client_network_ns), 0) AS "client_network_ns.mean"
FROM measured
WHERE
    NOT has_waited
    AND total_time_ns IS NOT NULL
    AND broker_time_ns IS NOT NULL
    AND response_send_ns IS NOT NULL
GROUP BY api_name, broker_ip, broker_port, capture_point
ORDER BY requests DESC, api_name NULLS LAST, broker_ip, broker_port, capture_point NULLS LAST
LIMIT $most_keys
