-- The slice of each second that has requests.
--
-- Seconds without requests are left out, so that a gap between two captures takes no slices.
SELECT
    second,
    CAST((row_number() OVER (ORDER BY second) - 1) * $slices // count(*) OVER () AS INTEGER)
        AS slice
FROM (
    SELECT DISTINCT request_start_ns // 1000000000 AS second
    FROM measured
    WHERE is_request AND request_start_ns IS NOT NULL
) AS seconds
