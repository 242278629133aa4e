-- Requests, errors and bytes by the `grain_ns` of `time_buckets` that they are in.
WITH events AS (
    SELECT
        request_start_ns // grain_ns * grain_ns AS start_ns,
        1 AS requests,
        0 AS errors,
        request_bytes,
        0 AS response_bytes
    FROM measured
    CROSS JOIN time_buckets
    WHERE is_request AND request_start_ns IS NOT NULL
    UNION ALL
    SELECT
        response_start_ns // grain_ns * grain_ns AS start_ns,
        0 AS requests,
        CASE WHEN is_error THEN 1 ELSE 0 END AS errors,
        0 AS request_bytes,
        response_bytes
    FROM measured
    CROSS JOIN time_buckets
    WHERE response_start_ns IS NOT NULL
)
SELECT
    start_ns,
    sum(requests) AS requests,
    sum(errors) AS errors,
    coalesce(sum(request_bytes), 0) AS request_bytes,
    coalesce(sum(response_bytes), 0) AS response_bytes
FROM events
GROUP BY start_ns
