-- Who created, changed or deleted what?
--
-- A line for each setting of each change, in order; `before` is its value after the previous change of it
-- in the captures, null if there was none. Changes that were refused have an error. Values of secrets
-- are hidden. Offsets that a tool resets are commits without a member, in `groups`.
SELECT
    make_timestamp(time_ns // 1000) AS time,
    * EXCLUDE (request_id, time_ns)
FROM known_changes
ORDER BY time_ns, request_id, resource_type, resource, setting
