-- Who created, changed or deleted what?
--
-- A line for each setting of each change, in order; `before` is its value after the previous change of it
-- in the captures, null if there was none. Changes that were refused have an error. Values of secrets
-- are hidden. Offsets that a tool resets are commits without a member, in `groups`.
SELECT
    make_timestamp(request_start_ns // 1000) AS time,
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
