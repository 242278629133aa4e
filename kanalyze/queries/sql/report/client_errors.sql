-- Error codes by client id.
--
-- only if requests: bool_or(array_length(errors) > 0)
SELECT
    client_id,
    api_name,
    error_code,
    error_name,
    count(*) AS count,
    min(response_start_ns) AS first_time_ns,
    max(response_start_ns) AS last_time_ns
FROM errors
GROUP BY client_id, api_name, error_code, error_name
ORDER BY count DESC, client_id NULLS LAST, api_name NULLS LAST, error_code
LIMIT $most_keys
