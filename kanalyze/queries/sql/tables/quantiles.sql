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
WITH latencies AS (
    SELECT
        wire,
        api_key,
        api_name,
        client_id,
        broker_ip,
        broker_port,
        is_request,
        has_waited,
        latency_bin,
        count(*) AS many,
        min(latency_ns) AS lowest,
        max(latency_ns) AS highest,
        sum(latency_ns) AS total
    FROM measured
    WHERE latency_ns IS NOT NULL
    GROUP BY
        wire, api_key, api_name, client_id, broker_ip, broker_port, is_request, has_waited,
        latency_bin
),
-- Identical lists first: to look into a list takes longer than to compare it with others.
topic_lists AS (
    SELECT
        list_transform(
            partitions,
            lambda p: struct_pack(
                topic := p.topic,
                topic_id := CASE WHEN p.topic IS NULL THEN p.topic_id END
            )
        ) AS topics,
        api_name,
        latency_bin,
        count(*) AS many,
        min(latency_ns) AS lowest,
        max(latency_ns) AS highest,
        sum(latency_ns) AS total
    FROM measured
    WHERE is_record_api(api_name) AND NOT has_waited AND latency_ns IS NOT NULL
    GROUP BY topics, api_name, latency_bin
),
topics AS (
    SELECT
        *,
        unnest(list_distinct(topics)) AS named
    FROM topic_lists
),
batches AS (
    SELECT
        client_id,
        codec,
        record_bytes,
        record_count
    FROM partitions
    WHERE is_produce_api(api_name) AND codec IS NOT NULL
),
-- Each key with each of its bins once.
binned AS (
    SELECT
        'api' AS subject,
        'latency_ns' AS measure,
        has_waited AS waited,
        wire AS key_1,
        CAST(api_key AS VARCHAR) AS key_2,
        api_name AS key_3,
        latency_bin AS bin,
        CAST(sum(many) AS BIGINT) AS many,
        min(lowest) AS lowest,
        max(highest) AS highest,
        sum(total) AS total
    FROM latencies
    GROUP BY wire, api_key, api_name, has_waited, latency_bin
    UNION ALL
    SELECT
        'broker' AS subject,
        'latency_ns' AS measure,
        has_waited AS waited,
        broker_ip AS key_1,
        CAST(broker_port AS VARCHAR) AS key_2,
        NULL AS key_3,
        latency_bin AS bin,
        CAST(sum(many) AS BIGINT) AS many,
        min(lowest) AS lowest,
        max(highest) AS highest,
        sum(total) AS total
    FROM latencies
    GROUP BY broker_ip, broker_port, has_waited, latency_bin
    UNION ALL
    SELECT
        'client' AS subject,
        'latency_ns' AS measure,
        has_waited AS waited,
        client_id AS key_1,
        NULL AS key_2,
        NULL AS key_3,
        latency_bin AS bin,
        CAST(sum(many) AS BIGINT) AS many,
        min(lowest) AS lowest,
        max(highest) AS highest,
        sum(total) AS total
    FROM latencies
    WHERE is_request
    GROUP BY client_id, has_waited, latency_bin
    UNION ALL
    SELECT
        'client_api' AS subject,
        'latency_ns' AS measure,
        has_waited AS waited,
        client_id AS key_1,
        api_name AS key_2,
        NULL AS key_3,
        latency_bin AS bin,
        CAST(sum(many) AS BIGINT) AS many,
        min(lowest) AS lowest,
        max(highest) AS highest,
        sum(total) AS total
    FROM latencies
    WHERE is_request
    GROUP BY client_id, api_name, has_waited, latency_bin
    UNION ALL
    SELECT
        'topic' AS subject,
        'latency_ns' AS measure,
        false AS waited,
        topics.named.topic AS key_1,
        topics.named.topic_id AS key_2,
        api_name AS key_3,
        latency_bin AS bin,
        CAST(sum(many) AS BIGINT) AS many,
        min(lowest) AS lowest,
        max(highest) AS highest,
        sum(total) AS total
    FROM topics
    GROUP BY topics.named.topic, topics.named.topic_id, api_name, latency_bin
    UNION ALL
    SELECT
        'api' AS subject,
        'total_time_ns' AS measure,
        has_waited AS waited,
        wire AS key_1,
        CAST(api_key AS VARCHAR) AS key_2,
        api_name AS key_3,
        total_time_bin AS bin,
        count(*) AS many,
        min(total_time_ns) AS lowest,
        max(total_time_ns) AS highest,
        sum(total_time_ns) AS total
    FROM measured
    WHERE total_time_ns IS NOT NULL
    GROUP BY wire, api_key, api_name, has_waited, total_time_bin
    UNION ALL
    SELECT
        'codec' AS subject,
        'record_bytes' AS measure,
        false AS waited,
        client_id AS key_1,
        codec AS key_2,
        NULL AS key_3,
        amount_bin(record_bytes) AS bin,
        count(*) AS many,
        min(record_bytes) AS lowest,
        max(record_bytes) AS highest,
        sum(record_bytes) AS total
    FROM batches
    WHERE record_bytes IS NOT NULL
    GROUP BY client_id, codec, amount_bin(record_bytes)
    UNION ALL
    SELECT
        'codec' AS subject,
        'record_count' AS measure,
        false AS waited,
        client_id AS key_1,
        codec AS key_2,
        NULL AS key_3,
        amount_bin(record_count) AS bin,
        count(*) AS many,
        min(record_count) AS lowest,
        max(record_count) AS highest,
        sum(record_count) AS total
    FROM batches
    WHERE record_count IS NOT NULL
    GROUP BY client_id, codec, amount_bin(record_count)
),
ranked AS (
    SELECT
        *,
        CAST(sum(many) OVER (
            PARTITION BY subject, measure, waited, key_1, key_2, key_3 ORDER BY bin
        ) AS BIGINT) AS up_to,
        CAST(sum(many) OVER (
            PARTITION BY subject, measure, waited, key_1, key_2, key_3
        ) AS BIGINT) AS of_all
    FROM binned
),
-- By themselves: these are nearly as many lines as requests, and ranking them by one number takes a
-- fifth of the time.
moments AS (
    SELECT
        request_start_ns // bucket_ns * bucket_ns AS start_ns,
        latency_bin AS bin,
        count(*) AS many,
        min(latency_ns) AS lowest,
        max(latency_ns) AS highest,
        sum(latency_ns) AS total
    FROM measured
    CROSS JOIN time_buckets
    WHERE is_request AND request_start_ns IS NOT NULL AND NOT has_waited AND latency_ns IS NOT NULL
    GROUP BY request_start_ns // bucket_ns * bucket_ns, latency_bin
),
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
