-- Count, mean and quantiles of amounts, for each API, client, broker, topic, ...
--
-- kept: most tables of a report need it.
--
-- `subject` defines `key_1` to `key_3`: for `api` wire, api_key, api_name; for `client` client_id;
-- for `client_api` client_id, api_name; for `broker` broker_ip, broker_port; for `time` the start of
-- a span of `time_buckets`; for `topic` topic, topic_id, api_name, where a request counts once; for
-- `codec` client_id, codec, where each partition of a Produce counts. `measure` is the measured
-- amount: `latency_ns`, `total_time_ns`, `record_bytes`, `record_count`. Requests that waited on
-- purpose have lines of their own.
--
-- Amounts are counted in the bins of `amount_bin`. Quantiles are those of `bin_quantile`: exact for
-- few amounts, and within 0.4 % otherwise.
WITH ranked AS (
    SELECT
        *,
        CAST(sum(many) OVER (
            PARTITION BY subject, measure, waited, key_1, key_2, key_3 ORDER BY bin
        ) AS BIGINT) AS up_to,
        CAST(sum(many) OVER (
            PARTITION BY subject, measure, waited, key_1, key_2, key_3
        ) AS BIGINT) AS of_all
    FROM amount_bins
),
moments AS (
    SELECT
        moment_bins.start_ns // bucket_ns * bucket_ns AS start_ns,
        bin,
        CAST(sum(many) AS BIGINT) AS many,
        min(lowest) AS lowest,
        max(highest) AS highest,
        sum(total) AS total
    FROM moment_bins
    CROSS JOIN time_buckets
    GROUP BY moment_bins.start_ns // bucket_ns * bucket_ns, bin
),
-- By themselves: these are nearly as many lines as requests, and ranking them by one number takes a
-- fifth of the time.
ranked_moments AS (
    SELECT
        *,
        CAST(sum(many) OVER (PARTITION BY start_ns ORDER BY bin) AS BIGINT) AS up_to,
        CAST(sum(many) OVER (PARTITION BY start_ns) AS BIGINT) AS of_all
    FROM moments
),
summed AS (
    SELECT
        subject,
        measure,
        waited,
        key_1,
        key_2,
        key_3,
        CAST(sum(many) AS BIGINT) AS count,
        min(lowest) AS min,
        bin_quantile(50, many, up_to, of_all, lowest, highest) AS p50,
        bin_quantile(90, many, up_to, of_all, lowest, highest) AS p90,
        bin_quantile(99, many, up_to, of_all, lowest, highest) AS p99,
        max(highest) AS max,
        CAST(sum(total) // sum(many) AS BIGINT) AS mean
    FROM ranked
    GROUP BY subject, measure, waited, key_1, key_2, key_3
    UNION ALL
    SELECT
        'time' AS subject,
        'latency_ns' AS measure,
        false AS waited,
        CAST(start_ns AS VARCHAR) AS key_1,
        NULL AS key_2,
        NULL AS key_3,
        CAST(sum(many) AS BIGINT) AS count,
        min(lowest) AS min,
        bin_quantile(50, many, up_to, of_all, lowest, highest) AS p50,
        bin_quantile(90, many, up_to, of_all, lowest, highest) AS p90,
        bin_quantile(99, many, up_to, of_all, lowest, highest) AS p99,
        max(highest) AS max,
        CAST(sum(total) // sum(many) AS BIGINT) AS mean
    FROM ranked_moments
    GROUP BY start_ns
)
SELECT
    *,
    struct_pack(count := count, min := min, p50 := p50, p90 := p90, p99 := p99, max := max, mean := mean)
        AS summary
FROM summed
