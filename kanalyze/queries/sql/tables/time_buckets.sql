-- The spans of time: the first beginning, their width and their number, in one line.
--
-- kept: every series needs it.
--
-- The width is one that people read at a glance, from 1 ms to 2000 days (common/times.py has the
-- same): the smallest with at most 240 spans from the first event to the last. Spans begin at
-- multiples of their width since 1970. Without events there is no line. `grain_ns` is the widest
-- span that this width and every wider one are multiples of: counts by it can be added up to those
-- of any longer time.
WITH widths AS (
    SELECT CAST(width_ms AS BIGINT) * 1000000 AS bucket_ns
    FROM
        (
            SELECT
                unnest([
                    1, 2, 5, 10, 20, 50, 100, 200, 500,
                    1000, 2000, 5000, 10000, 15000, 30000,
                    60000, 120000, 300000, 600000, 900000, 1800000,
                    3600000, 7200000, 10800000, 21600000, 43200000,
                    86400000, 172800000, 432000000, 864000000, 1728000000, 4320000000,
                    8640000000, 17280000000, 43200000000, 86400000000, 172800000000
                ]) AS width_ms
        ) AS every
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
),
dividing AS (
    SELECT grains.bucket_ns AS grain_ns
    FROM fitting
    CROSS JOIN widths AS grains
    CROSS JOIN widths AS wider
    WHERE wider.bucket_ns >= fitting.bucket_ns
    GROUP BY grains.bucket_ns
    HAVING bool_and(wider.bucket_ns % grains.bucket_ns = 0)
)
SELECT
    first_ns // bucket_ns * bucket_ns AS start_ns,
    bucket_ns,
    last_ns // bucket_ns - first_ns // bucket_ns + 1 AS buckets,
    max(grain_ns) AS grain_ns
FROM fitting
CROSS JOIN dividing
GROUP BY first_ns, last_ns, bucket_ns
