-- Changes, with what each setting was before, as far as changes in the captures tell.
SELECT
    request_id,
    request_start_ns AS time_ns,
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
