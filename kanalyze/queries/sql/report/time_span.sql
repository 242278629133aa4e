-- The time of the first and the last event that `throughput` counts.
SELECT
    least(
        min(request_start_ns) FILTER (WHERE is_request),
        min(response_start_ns)
    ) AS first_time_ns,
    greatest(
        max(request_start_ns) FILTER (WHERE is_request),
        max(response_start_ns)
    ) AS last_time_ns
FROM measured
