-- The times of the first and of the last event of requests, in one line.
SELECT
    least(
        min(request_start_ns) FILTER (WHERE is_request),
        min(response_start_ns)
    ) AS first_ns,
    greatest(
        max(request_start_ns) FILTER (WHERE is_request),
        max(response_start_ns)
    ) AS last_ns
FROM measured
