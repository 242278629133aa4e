-- In which minutes were there many more errors than in the rest of their day?
--
-- An error is a response with an error code at any level: status 'error'. `expected` is how many a
-- minute of so many requests would have, had it the rate of the other minutes of its day. A minute
-- is a burst with three times as many and ten more than that: ten, since a rate over few requests
-- is chance. A day of one minute has nothing to be compared with, and no bursts.
WITH minutes AS (
    SELECT
        date_trunc('MINUTE', timestamp_micros(request_start_ns DIV 1000)) AS minute,
        count(*) AS requests,
        count_if(status = 'error') AS errors,
        array_sort(collect_set(error_name) FILTER (WHERE status = 'error')) AS error_names
    FROM requests
    WHERE request_start_ns IS NOT NULL
    GROUP BY minute
),
compared AS (
    SELECT
        *,
        (sum(requests) OVER of_day) - requests AS other_requests,
        (sum(errors) OVER of_day) - errors AS other_errors
    FROM minutes
    WINDOW of_day AS (PARTITION BY date(minute))
),
judged AS (
    SELECT
        *,
        requests * other_errors / other_requests AS expected
    FROM compared
    WHERE other_requests > 0
)
SELECT
    minute,
    requests,
    errors,
    expected,
    error_names
FROM judged
WHERE
    errors >= 3 * expected
    AND errors >= expected + 10
ORDER BY minute
