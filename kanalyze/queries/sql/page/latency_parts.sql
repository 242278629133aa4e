-- The parts of the time of requests, as sums by all dimensions of the page.
--
-- These are the requests whose parts are known and that did not wait on purpose, as in the report's
-- table `latency_parts`. The six parts add up to the total time of these requests, without
-- `waited_ns`.
-- `client_network_ns` is not included; it is known for `client_network_rows` of them.
SELECT
    page_number(r.client, $clients) AS client,
    page_number(r.api, $apis) AS api,
    page_number(r.broker, $brokers) AS broker,
    page_number(r."group", $groups) AS "group",
    page_number(r.topic, $topics) AS topic,
    r.is_again,
    page_bucket(r.time_ns, $start_ns, $bucket_ns) AS bucket,
    m.capture_point,
    count(*) AS rows,
    count(*) FILTER (WHERE m.retransmitted_packets > 0) AS resent,
    count(*) FILTER (WHERE m.zero_windows > 0) AS closed,
    sum(m.request_send_ns) AS request_send_ns,
    sum(m.broker_network_ns) AS broker_network_ns,
    sum(m.retransmission_wait_ns) AS retransmission_wait_ns,
    sum(m.pipeline_wait_ns) AS pipeline_wait_ns,
    sum(m.broker_time_ns) AS broker_time_ns,
    sum(m.response_send_ns) AS response_send_ns,
    coalesce(sum(m.client_network_ns), 0) AS client_network_ns,
    count(m.client_network_ns) AS client_network_rows
FROM measured AS m
JOIN page_requests AS r ON m.request_id = r.request_id
WHERE
    NOT m.has_waited
    AND m.total_time_ns IS NOT NULL
    AND m.request_send_ns IS NOT NULL
    AND m.broker_network_ns IS NOT NULL
    AND m.retransmission_wait_ns IS NOT NULL
    AND m.pipeline_wait_ns IS NOT NULL
    AND m.broker_time_ns IS NOT NULL
    AND m.response_send_ns IS NOT NULL
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
ORDER BY 1, 2, 3, 4, 5, 6, 7, 8
LIMIT $most_cells
