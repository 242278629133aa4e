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
WITH timed AS (
    SELECT
        wire,
        api_key,
        api_name,
        client_id,
        broker_ip,
        broker_port,
        request_start_ns,
        partitions,
        is_request,
        has_waited,
        latency_ns,
        latency_bin,
        total_time_ns,
        total_time_bin
    FROM measured
    WHERE latency_ns IS NOT NULL OR total_time_ns IS NOT NULL
),
latencies AS (
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
    FROM timed
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
    FROM timed
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
-- Lines that other lines may have the key and the bin of.
divided AS (
    SELECT
        subject,
        'latency_ns' AS measure,
        has_waited AS waited,
        CASE subject WHEN 'api' THEN wire WHEN 'broker' THEN broker_ip ELSE client_id END AS key_1,
        CASE subject
            WHEN 'api' THEN CAST(api_key AS VARCHAR)
            WHEN 'broker' THEN CAST(broker_port AS VARCHAR)
            WHEN 'client_api' THEN api_name
        END AS key_2,
        CASE subject WHEN 'api' THEN api_name END AS key_3,
        latency_bin AS bin,
        many,
        lowest,
        highest,
        total
    FROM latencies
    CROSS JOIN (VALUES ('api'), ('broker'), ('client'), ('client_api')) AS subjects (subject)
    WHERE is_request OR subject IN ('api', 'broker')
    UNION ALL
    SELECT
        'topic' AS subject,
        'latency_ns' AS measure,
        false AS waited,
        topics.named.topic AS key_1,
        topics.named.topic_id AS key_2,
        api_name AS key_3,
        latency_bin AS bin,
        many,
        lowest,
        highest,
        total
    FROM topics
),
binned AS (
    SELECT
        subject,
        measure,
        waited,
        key_1,
        key_2,
        key_3,
        bin,
        CAST(sum(many) AS BIGINT) AS many,
        min(lowest) AS lowest,
        max(highest) AS highest,
        sum(total) AS total
    FROM divided
    GROUP BY subject, measure, waited, key_1, key_2, key_3, bin
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
    FROM timed
    WHERE total_time_ns IS NOT NULL
    GROUP BY wire, api_key, api_name, has_waited, total_time_bin
    UNION ALL
    SELECT
        'time' AS subject,
        'latency_ns' AS measure,
        false AS waited,
        CAST(request_start_ns // bucket_ns * bucket_ns AS VARCHAR) AS key_1,
        NULL AS key_2,
        NULL AS key_3,
        latency_bin AS bin,
        count(*) AS many,
        min(latency_ns) AS lowest,
        max(latency_ns) AS highest,
        sum(latency_ns) AS total
    FROM timed
    CROSS JOIN time_buckets
    WHERE is_request AND request_start_ns IS NOT NULL AND NOT has_waited AND latency_ns IS NOT NULL
    GROUP BY request_start_ns // bucket_ns, bucket_ns, latency_bin
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
)
SELECT
    *,
    struct_pack(count := count, min := min, p50 := p50, p90 := p90, p99 := p99, max := max, mean := mean)
        AS summary
FROM summed
