-- What clients created, changed or deleted, in order of time.
--
-- only if changes: count(*) > 0
SELECT * EXCLUDE (request_id)
FROM known_changes
ORDER BY time_ns, request_id, resource_type, resource, setting
LIMIT $most_keys
