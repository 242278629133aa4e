-- In which minutes were there many more errors than in the rest of their day?
--
-- An error is a response with an error code at any level: status 'error'. `expected` is the number
-- of errors in a minute if its requests failed at the rate of the other minutes of its day. A minute
-- is a burst if it has three times as many errors, and at least ten more: with few requests, a high
-- rate may be chance. A day of one minute cannot be compared, and has no bursts. Requests whose
-- response was not read are left out: nobody knows whether they failed.
WITH minutes AS (
    SELECT
        date_trunc('minute', make_timestamp(request_start_ns // 1000)) AS minute,
        count(*) AS requests,
        count(*) FILTER (WHERE status = 'error') AS errors,
        coalesce(
            list_sort(list(DISTINCT error_name) FILTER (WHERE status = 'error')),
            []
        ) AS error_names
    FROM measured
    WHERE request_start_ns IS NOT NULL AND NOT is_unread
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
