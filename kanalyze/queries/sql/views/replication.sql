-- How brokers copy partitions from each other, and the time between fetches.
--
-- A follower has several connections to a leader if it has several fetchers; the time between fetches
-- is that of each of them. `record_bytes` and `errors` are those of partitions.
WITH fetches AS (
    SELECT
        request_id,
        client_id,
        client_ip,
        broker_ip,
        broker_port,
        status,
        waited,
        response_bytes,
        record_count,
        record_bytes,
        latency_ns,
        request_start_ns,
        request_start_ns - max(request_start_ns) OVER (
            PARTITION BY connection, connection_number ORDER BY request_start_ns, request_id
            ROWS BETWEEN 1 PRECEDING AND 1 PRECEDING
        ) AS gap_ns
    FROM requests
    WHERE api_name = 'Fetch' AND is_replica_client(client_id) AND client_id NOT LIKE 'raft-%'
),
named AS (
    SELECT
        p.client_id,
        p.client_ip,
        p.broker_ip,
        p.broker_port,
        count(DISTINCT concat(coalesce(p.topic, p.topic_id), '-', p."partition")) AS partitions,
        count(*) FILTER (WHERE p.error_code <> 0) AS partition_errors
    FROM partitions AS p
    WHERE p.api_name = 'Fetch' AND is_replica_client(p.client_id) AND p.client_id NOT LIKE 'raft-%'
    GROUP BY p.client_id, p.client_ip, p.broker_ip, p.broker_port
),
summed AS (
    SELECT
        client_id,
        client_ip,
        broker_ip,
        broker_port,
        count(*) AS fetches,
        count(*) FILTER (WHERE status = 'error') AS errors,
        CAST(coalesce(sum(record_count), 0) AS BIGINT) AS record_count,
        CAST(coalesce(sum(record_bytes), 0) AS BIGINT) AS record_bytes,
        CAST(coalesce(sum(response_bytes), 0) AS BIGINT) AS response_bytes,
        CAST(sum(gap_ns) AS BIGINT) // nullif(count(gap_ns), 0) AS mean_gap_ns,
        max(gap_ns) AS longest_gap_ns,
        max(CASE WHEN waited IS NOT TRUE THEN latency_ns END) AS longest_latency_ns,
        min(request_start_ns) AS first_time_ns,
        max(request_start_ns) AS last_time_ns
    FROM fetches
    GROUP BY client_id, client_ip, broker_ip, broker_port
)
SELECT
    CAST(regexp_extract(summed.client_id, '^broker-([0-9]+)-', 1) AS INTEGER) AS follower_id,
    summed.client_id,
    summed.client_ip,
    summed.broker_ip,
    summed.broker_port,
    fetches,
    errors,
    partitions,
    partition_errors,
    record_count,
    record_bytes,
    response_bytes,
    mean_gap_ns,
    longest_gap_ns,
    longest_latency_ns,
    first_time_ns,
    make_timestamp_ns(nullif(first_time_ns, 9223372036854775807)) AS first_time,
    last_time_ns,
    make_timestamp_ns(nullif(last_time_ns, 9223372036854775807)) AS last_time
FROM summed
LEFT JOIN named
    ON summed.client_id = named.client_id
    AND summed.client_ip = named.client_ip
    AND summed.broker_ip = named.broker_ip
    AND summed.broker_port = named.broker_port
