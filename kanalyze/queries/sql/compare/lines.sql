-- The lines to compare, with their figures; the busiest first.
SELECT
    row_number() OVER (ORDER BY sum(requests) DESC, kind, api, name NULLS LAST) - 1 AS line,
    kind,
    api,
    name,
    CAST(sum(requests) AS BIGINT) AS requests,
    CAST(sum(due) AS BIGINT) AS due,
    CAST(sum(errors) AS BIGINT) AS errors,
    CAST(sum(unread) AS BIGINT) AS unread,
    CAST(sum(unanswered) AS BIGINT) AS unanswered,
    CAST(sum(throttled) AS BIGINT) AS throttled,
    CAST(sum(waited) AS BIGINT) AS waited,
    CAST(sum(request_bytes) AS BIGINT) AS request_bytes,
    CAST(sum(response_bytes) AS BIGINT) AS response_bytes
FROM compare_cells
GROUP BY kind, api, name
ORDER BY line
LIMIT $most_lines
