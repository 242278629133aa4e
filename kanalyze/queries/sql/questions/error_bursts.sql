-- In which minutes were there many more errors than in the rest of their day?
--
-- An error is a response with an error code at any level: status 'error'. `expected` is how many a
-- minute of so many requests would have, had it the rate of the other minutes of its day. A minute
-- is a burst with three times as many and ten more than that: ten, since a rate over few requests
-- is chance. A day of one minute has nothing to be compared with, and no bursts.
WITH minutes AS (
    SELECT
        date_trunc('minute', make_timestamp(request_start_ns // 1000)) AS minute,
        count(*) AS requests,
        count(*) FILTER (WHERE status = 'error') AS errors,
        coalesce(
            list_sort(list(DISTINCT error_name) FILTER (WHERE status = 'error')),
            []
        ) AS error_names
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
    WINDOW of_day AS (PARTITION BY CAST(minute AS DATE))
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
