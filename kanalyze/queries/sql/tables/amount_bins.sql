-- Amounts of requests, counted in bins, for what `quantiles` gives quantiles of.
--
-- Each key with each of its bins once: the lines of two inputs can be added up. See `quantiles` for
-- the keys; those of `time` are in `moment_bins`.
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
)
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
