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
WITH spans AS (
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
ranked AS (
    SELECT
        subject, measure, waited, key_1, key_2, key_3, NULL AS start_ns, many, lowest, highest, total,
        CAST(sum(many) OVER (of_key ORDER BY bin) AS BIGINT) AS up_to,
        CAST(sum(many) OVER of_key AS BIGINT) AS of_all
    FROM amount_bins
    WINDOW of_key AS (PARTITION BY subject, measure, waited, key_1, key_2, key_3)
    UNION ALL
    -- By themselves: these are nearly as many lines as requests, and ranking them by one number takes
    -- a fifth of the time.
    SELECT
        'time', 'latency_ns', false, NULL, NULL, NULL, start_ns, many, lowest, highest, total,
        CAST(sum(many) OVER (of_span ORDER BY bin) AS BIGINT),
        CAST(sum(many) OVER of_span AS BIGINT)
    FROM spans
    WINDOW of_span AS (PARTITION BY start_ns)
),
summed AS (
    SELECT
        subject,
        measure,
        waited,
        coalesce(key_1, CAST(start_ns AS VARCHAR)) AS key_1,
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
    GROUP BY subject, measure, waited, key_1, key_2, key_3, start_ns
)
SELECT
    *,
    struct_pack(count := count, min := min, p50 := p50, p90 := p90, p99 := p99, max := max, mean := mean)
        AS summary
FROM summed
