-- Requests, errors and bytes over time.
--
-- A request counts when it begins, its errors and its response when the response begins.
--
-- only if requests: count(*) > 0
SELECT
    start_ns,
    requests,
    errors,
    request_bytes,
    response_bytes
FROM moment_sums
ORDER BY start_ns
