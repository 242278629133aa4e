-- Requests, errors and bytes over time.
--
-- A request counts when it begins, its errors and its response when the response begins.
--
-- only if requests: count(*) > 0
SELECT
    moment_sums.start_ns // bucket_ns * bucket_ns AS start_ns,
    sum(requests) AS requests,
    sum(errors) AS errors,
    sum(request_bytes) AS request_bytes,
    sum(response_bytes) AS response_bytes
FROM moment_sums
CROSS JOIN time_buckets
GROUP BY moment_sums.start_ns // bucket_ns * bucket_ns
ORDER BY start_ns
