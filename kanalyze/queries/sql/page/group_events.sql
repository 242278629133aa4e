-- Joins, syncs and leaves of the busiest groups, in order of time.
SELECT
    page_number(r."group", $groups) AS "group",
    page_number(r.client, $clients) AS client,
    page_number(r.api, $apis) AS api,
    page_number(r.broker, $brokers) AS broker,
    page_bucket(r.time_ns, $start_ns, $bucket_ns) AS bucket,
    measured.api_name,
    measured.status,
    measured.error_name,
    measured.request_start_ns,
    coalesce(measured.response_end_ns, measured.request_end_ns, measured.request_start_ns)
        AS end_ns,
    measured.request_packet
FROM measured
JOIN page_requests AS r ON measured.request_id = r.request_id AND NOT r.is_again
WHERE
    measured.group_id IS NOT NULL
    AND r."group" >= 0
    AND r."group" < $groups
    AND measured.request_start_ns IS NOT NULL
    AND (
        measured.api_name IN ('JoinGroup', 'SyncGroup', 'LeaveGroup')
        OR (measured.api_name IN ('Heartbeat', 'ConsumerGroupHeartbeat') AND is_error)
    )
ORDER BY measured.request_start_ns, measured.request_id
LIMIT $most_events
