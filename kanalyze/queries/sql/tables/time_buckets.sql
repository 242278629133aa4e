-- The spans of time: the first beginning, their width and their number, in one line.
--
-- kept: every series needs it.
--
-- The width is 1 ms, 2 ms, 4 ms, ...: the smallest with at most 240 spans from the first event to
-- the last. Spans begin at multiples of their width since 1970. Without events there is no line.
WITH widths AS (
    SELECT CAST(1000000 * power(2, doublings) AS BIGINT) AS bucket_ns
    FROM (SELECT unnest(generate_series(0, 43)) AS doublings) AS every
),
fitting AS (
    SELECT
        first_ns,
        last_ns,
        min(bucket_ns) AS bucket_ns
    FROM time_extent
    CROSS JOIN widths
    WHERE last_ns // bucket_ns - first_ns // bucket_ns < 240
    GROUP BY first_ns, last_ns
)
SELECT
    first_ns // bucket_ns * bucket_ns AS start_ns,
    bucket_ns,
    last_ns // bucket_ns - first_ns // bucket_ns + 1 AS buckets
FROM fitting
