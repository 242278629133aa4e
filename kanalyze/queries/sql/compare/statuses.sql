-- How requests ended, by line and slice of time.
SELECT
    CAST(line AS INTEGER) AS line,
    CAST(slice AS INTEGER) AS slice,
    CAST(sum(compare_cells.due) AS BIGINT) AS due,
    CAST(sum(compare_cells.errors) AS BIGINT) AS errors,
    CAST(sum(compare_cells.unanswered) AS BIGINT) AS unanswered,
    CAST(sum(compare_cells.throttled) AS BIGINT) AS throttled,
    CAST(sum(compare_cells.unread) AS BIGINT) AS unread
FROM compare_cells
JOIN compare_lines
    ON compare_cells.kind = compare_lines.kind
    AND compare_cells.api = compare_lines.api
    AND compare_cells.name IS NOT DISTINCT FROM compare_lines.name
WHERE slice IS NOT NULL
GROUP BY line, slice
ORDER BY line, slice
LIMIT $most_cells
