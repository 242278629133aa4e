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
topic_lists AS (
    SELECT
        list_distinct(
            list_transform(
                partitions,
                lambda p: struct_pack(
                    topic := p.topic,
                    topic_id := CASE WHEN p.topic IS NULL THEN p.topic_id END
                )
            )
        ) AS topics,
        api_name,
        latency_bin,
        count(*) AS many,
        min(latency_ns) AS lowest,
        max(latency_ns) AS highest,
        sum(latency_ns) AS total
    FROM measured
    WHERE
        api_name IN ('Produce', 'MultiProduce', 'Fetch', 'MultiFetch', 'ShareFetch')
        AND work_latency_ns IS NOT NULL
    GROUP BY topics, api_name, latency_bin
),
topics AS (
    SELECT
        unnest(topics) AS named,
        api_name,
        latency_bin,
        many,
        lowest,
        highest,
        total
    FROM topic_lists
),
packed AS (
    SELECT
        client_id,
        codec,
        record_bytes,
        record_count
    FROM partitions
    WHERE api_name IN ('Produce', 'MultiProduce') AND codec IS NOT NULL
),
amounts AS (
    SELECT
        'codec' AS subject,
        'record_bytes' AS measure,
        client_id AS key_1,
        codec AS key_2,
        CAST(NULL AS VARCHAR) AS key_3,
        record_bytes AS amount
    FROM packed
    UNION ALL
    SELECT
        'codec' AS subject,
        'record_count' AS measure,
        client_id AS key_1,
        codec AS key_2,
        CAST(NULL AS VARCHAR) AS key_3,
        record_count AS amount
    FROM packed
),
amount_bins AS (
    SELECT
        *,
        amount_bin(amount) AS bin
    FROM amounts
    WHERE amount IS NOT NULL
),
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
        'client' AS subject,
        'latency_ns' AS measure,
        has_waited AS waited,
        client_id AS key_1,
        CAST(NULL AS VARCHAR) AS key_2,
        CAST(NULL AS VARCHAR) AS key_3,
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
        CAST(NULL AS VARCHAR) AS key_3,
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
        'broker' AS subject,
        'latency_ns' AS measure,
        has_waited AS waited,
        broker_ip AS key_1,
        CAST(broker_port AS VARCHAR) AS key_2,
        CAST(NULL AS VARCHAR) AS key_3,
        latency_bin AS bin,
        CAST(sum(many) AS BIGINT) AS many,
        min(lowest) AS lowest,
        max(highest) AS highest,
        sum(total) AS total
    FROM latencies
    GROUP BY broker_ip, broker_port, has_waited, latency_bin
    UNION ALL
    SELECT
        'time' AS subject,
        'latency_ns' AS measure,
        false AS waited,
        CAST(request_start_ns // bucket_ns * bucket_ns AS VARCHAR) AS key_1,
        CAST(NULL AS VARCHAR) AS key_2,
        CAST(NULL AS VARCHAR) AS key_3,
        latency_bin AS bin,
        count(*) AS many,
        min(latency_ns) AS lowest,
        max(latency_ns) AS highest,
        sum(latency_ns) AS total
    FROM measured
    CROSS JOIN time_buckets
    WHERE is_request AND request_start_ns IS NOT NULL AND work_latency_ns IS NOT NULL
    GROUP BY request_start_ns // bucket_ns, bucket_ns, latency_bin
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
        subject,
        measure,
        false AS waited,
        key_1,
        key_2,
        key_3,
        bin,
        count(*) AS many,
        min(amount) AS lowest,
        max(amount) AS highest,
        sum(amount) AS total
    FROM amount_bins
    GROUP BY subject, measure, key_1, key_2, key_3, bin
),
ranked AS (
    SELECT
        *,
        CAST(sum(many) OVER up_to_bin AS BIGINT) AS up_to,
        CAST(sum(many) OVER all_bins AS BIGINT) AS of_all
    FROM binned
    WINDOW
        up_to_bin AS (
            PARTITION BY subject, measure, waited, key_1, key_2, key_3
            ORDER BY bin
            ROWS UNBOUNDED PRECEDING
        ),
        all_bins AS (
            PARTITION BY subject, measure, waited, key_1, key_2, key_3
            ORDER BY bin
            ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
        )
)
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
