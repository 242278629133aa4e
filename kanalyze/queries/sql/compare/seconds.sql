-- When requests began: the first, the last, and the number of seconds with requests.
SELECT
    count(*) AS requests,
    count(DISTINCT request_start_ns // 1000000000) AS seconds,
    min(request_start_ns) AS first_time_ns,
    max(request_start_ns) AS last_time_ns
FROM measured
WHERE is_request
