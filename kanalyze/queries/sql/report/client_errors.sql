-- Error codes by client id.
--
-- only if requests: bool_or(array_length(errors) > 0)
SELECT
    client_id,
    api_name,
    error_code,
    error_name,
    CAST(sum(many) AS BIGINT) AS count,
    min(first_time_ns) AS first_time_ns,
    max(last_time_ns) AS last_time_ns
FROM error_sums
GROUP BY client_id, api_name, error_code, error_name
ORDER BY count DESC, client_id NULLS LAST, api_name NULLS LAST, error_code
LIMIT $most_keys
