-- Joins, syncs and leaves of the busiest groups, in order of time.
SELECT
    CASE WHEN r."group" < $groups THEN r."group" ELSE -1 END AS "group",
    CASE WHEN r.client < $clients THEN r.client ELSE -1 END AS client,
    CASE WHEN r.api < $apis THEN r.api ELSE -1 END AS api,
    CASE WHEN r.broker < $brokers THEN r.broker ELSE -1 END AS broker,
    coalesce((r.time_ns - $start_ns) // $bucket_ns, -1) AS bucket,
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
