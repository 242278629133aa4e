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
        latency_bin AS bin,
        count(*) AS many,
        min(latency_ns) AS lowest,
        max(latency_ns) AS highest,
        sum(latency_ns) AS total
    FROM measured
    WHERE latency_ns IS NOT NULL
    GROUP BY ALL
),
-- Identical lists first: to look into a list takes longer than to compare it with others.
topic_lists AS (
    SELECT
        topic_names(partitions) AS topics,
        -- sessions: session_list,
        api_name,
        latency_bin AS bin,
        count(*) AS many,
        min(latency_ns) AS lowest,
        max(latency_ns) AS highest,
        sum(latency_ns) AS total
    FROM measured
    WHERE is_record_api(api_name) AND NOT has_waited AND latency_ns IS NOT NULL
    GROUP BY ALL
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
    bin,
    CAST(sum(many) AS BIGINT) AS many,
    min(lowest) AS lowest,
    max(highest) AS highest,
    sum(total) AS total
FROM latencies
GROUP BY wire, api_key, api_name, has_waited, bin
UNION ALL
SELECT
    'broker', 'latency_ns', has_waited, broker_ip, CAST(broker_port AS VARCHAR), NULL, bin,
    CAST(sum(many) AS BIGINT), min(lowest), max(highest), sum(total)
FROM latencies
GROUP BY broker_ip, broker_port, has_waited, bin
UNION ALL
SELECT
    'client', 'latency_ns', has_waited, client_id, NULL, NULL, bin,
    CAST(sum(many) AS BIGINT), min(lowest), max(highest), sum(total)
FROM latencies
WHERE is_request
GROUP BY client_id, has_waited, bin
UNION ALL
SELECT
    'client_api', 'latency_ns', has_waited, client_id, api_name, NULL, bin,
    CAST(sum(many) AS BIGINT), min(lowest), max(highest), sum(total)
FROM latencies
WHERE is_request
GROUP BY client_id, api_name, has_waited, bin
UNION ALL
SELECT
    'topic', 'latency_ns', false, named.topic, named.topic_id, api_name, bin,
    CAST(sum(many) AS BIGINT), min(lowest), max(highest), sum(total)
FROM (
    SELECT
        *,
        unnest(
            list_distinct(
                list_concat(
                    topics
                    -- sessions: , topic_names(partitions)
                )
            )
        ) AS named
    FROM topic_lists
    -- sessions: LEFT JOIN session_lists USING (session_list)
) AS topics
GROUP BY named.topic, named.topic_id, api_name, bin
UNION ALL
SELECT
    'api', 'total_time_ns', has_waited, wire, CAST(api_key AS VARCHAR), api_name, total_time_bin,
    count(*), min(total_time_ns), max(total_time_ns), sum(total_time_ns)
FROM measured
WHERE total_time_ns IS NOT NULL
GROUP BY wire, api_key, api_name, has_waited, total_time_bin
UNION ALL
SELECT
    'codec', 'record_bytes', false, client_id, codec, NULL, amount_bin(record_bytes),
    count(*), min(record_bytes), max(record_bytes), sum(record_bytes)
FROM batches
WHERE record_bytes IS NOT NULL
GROUP BY client_id, codec, amount_bin(record_bytes)
UNION ALL
SELECT
    'codec', 'record_count', false, client_id, codec, NULL, amount_bin(record_count),
    count(*), min(record_count), max(record_count), sum(record_count)
FROM batches
WHERE record_count IS NOT NULL
GROUP BY client_id, codec, amount_bin(record_count)
