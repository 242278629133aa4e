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
    CASE WHEN error_code = 0 THEN before END AS before,
    value,
    CASE WHEN is_trial THEN 'only tried' ELSE nullif(error_name, 'NONE') END AS refused,
    capture,
    request_packet
FROM (
    SELECT
        *,
        last_value(CASE WHEN error_code = 0 AND NOT is_trial THEN value END IGNORE NULLS) OVER (
            PARTITION BY resource_type, resource, setting
            ORDER BY request_start_ns, request_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before
    FROM changes
) AS told
ORDER BY request_start_ns, request_id, resource_type, resource, setting
