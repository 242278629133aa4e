-- What clients created, changed or deleted, in order of time; see `known_changes`.
--
-- only if changes: count(*) > 0
SELECT
    request_start_ns AS time_ns,
    principal,
    client_id,
    client_ip,
    action,
    resource_type,
    resource,
    setting,
    before,
    value,
    refused,
    capture,
    request_packet
FROM known_changes
ORDER BY request_start_ns, request_id, resource_type, resource, setting
LIMIT $most_keys
