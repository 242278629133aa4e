-- A broker that is slower than the others.
--
-- severity: 75
-- sure: likely: several brokers answered the same API in the same capture; the network is subtracted if it was measured.
-- why: Every client with partitions on it waits for it.
-- repair: Look at that broker: disk, garbage collection, request queue (RequestQueueTimeMs), its share of the leaders (kafka-leader-election.sh).
-- only if requests: min(broker_port) < max(broker_port) OR min(broker_ip) < max(broker_ip)
-- parameter least_ratio = 3: minimum ratio to the 99th percentile of the others
-- parameter least_requests = 100: minimum number of requests of the API to it
-- parameter least_latency_ms = 5: minimum of its 99th percentile in ms
-- Times are counted in bins, as in `quantiles`: a list of all times would be in memory at once.
WITH times AS (
    SELECT
        api_name,
        broker_ip,
        broker_port,
        coalesce(broker_time_ns, work_latency_ns) AS time_ns,
        request_start_ns,
        request_packet
    FROM measured
    WHERE work_latency_ns IS NOT NULL
),
binned AS (
    SELECT
        api_name,
        broker_ip,
        broker_port,
        amount_bin(time_ns) AS bin,
        count(*) AS many,
        min(time_ns) AS lowest,
        max(time_ns) AS highest,
        min(request_start_ns) AS first_time_ns,
        max(request_start_ns) AS last_time_ns,
        min(request_packet) AS first_packet
    FROM times
    GROUP BY api_name, broker_ip, broker_port, amount_bin(time_ns)
),
ranked AS (
    SELECT
        *,
        CAST(sum(many) OVER (PARTITION BY api_name, broker_ip, broker_port ORDER BY bin) AS BIGINT)
            AS up_to,
        CAST(sum(many) OVER (PARTITION BY api_name, broker_ip, broker_port) AS BIGINT) AS of_all
    FROM binned
),
of_brokers AS (
    SELECT
        api_name,
        broker_ip,
        broker_port,
        CAST(sum(many) AS BIGINT) AS requests,
        bin_quantile(99, many, up_to, of_all, lowest, highest) AS p99_ns,
        min(first_time_ns) AS first_time_ns,
        max(last_time_ns) AS last_time_ns,
        min(first_packet) AS first_packet
    FROM ranked
    GROUP BY api_name, broker_ip, broker_port
    HAVING sum(many) >= $least_requests
),
compared AS (
    SELECT
        own.*,
        (
            SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY others.p99_ns DESC)
            FROM of_brokers AS others
            WHERE
                others.api_name = own.api_name
                AND (others.broker_ip <> own.broker_ip OR others.broker_port <> own.broker_port)
        ) AS others_p99_ns
    FROM of_brokers AS own
)
SELECT
    broker_ip,
    broker_port,
    api_name,
    concat(
        '99 % of ', requests, ' within ', in_ms(p99_ns), ' ms; of the other brokers within ',
        in_ms(others_p99_ns), ' ms'
    ) AS what,
    p99_ns / 1e6 AS weight,
    first_time_ns,
    last_time_ns,
    first_packet
FROM compared
WHERE p99_ns >= $least_ratio * others_p99_ns AND p99_ns >= $least_latency_ms * 1000000
ORDER BY weight DESC, broker_ip, broker_port, api_name NULLS LAST
