-- Error codes, counted by what reports divide them by.
SELECT
    client_id,
    api_name,
    error_code,
    error_name,
    topic,
    count(*) AS many,
    min(response_start_ns) AS first_time_ns,
    max(response_start_ns) AS last_time_ns
FROM errors
GROUP BY client_id, api_name, error_code, error_name, topic
