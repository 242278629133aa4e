-- A broker that is slower than the others.
--
-- Brokers are compared for the same API: controllers with controllers, the fetches of consumers
-- and of other brokers apart, and with brokers of the same port if there are any, because a
-- listener has the same port on all of them.
--
-- severity: 75
-- sure: likely: several brokers answered the same API in the same capture; the network is subtracted if it was measured.
-- why: Every client with partitions on it waits for it.
-- repair: Look at that broker: disk, garbage collection, request queue (RequestQueueTimeMs), its share of the leaders (kafka-leader-election.sh).
-- see: latency_parts over_time
-- caused by broker_stood_still: broker
-- caused by narrow_link: machine
-- caused by packets_lost: machine
-- only if requests: (min(broker_port) < max(broker_port) OR min(broker_ip) < max(broker_ip)) AND max(CASE WHEN waited IS NOT TRUE THEN coalesce(CAST(broker_time_ns AS DOUBLE) + coalesce(pipeline_wait_ns, 0), latency_ns) END) >= $least_latency_ms * 1000000
-- parameter least_ratio = 3: minimum ratio to the 99th percentile of the others
-- parameter least_requests = 100: minimum number of requests of the API to it
-- parameter least_latency_ms = 5: minimum of its 99th percentile in ms
-- parameter least_slow = 10: minimum number of requests that took longer than 99 % of the others'
-- parameter least_share = 0.1: minimum share of them, of which chance makes 0.01, and pauses on a busy machine up to 0.06
-- parameter least_seconds = 3: minimum number of different seconds in which they were sent; in fewer, the broker paused
-- Times are counted in bins, as in `quantiles`: a list of all times would be in memory at once.
WITH times AS (
    SELECT
        api_name,
        CASE WHEN is_fetch AND is_replica_client(client_id) THEN 'replica' ELSE 'client' END AS asker,
        broker_ip,
        broker_port,
        -- Waiting behind a slow response on the same connection is the broker's doing, too.
        -- Their sum may exceed 64 bits in a capture with odd times.
        CASE
            WHEN broker_time_ns IS NULL THEN work_latency_ns
            ELSE greatest(
                broker_time_ns + least(
                    greatest(coalesce(pipeline_wait_ns, 0), 0),
                    9223372036854775807 - greatest(broker_time_ns, 0)
                ),
                0
            )
        END AS time_ns,
        -- rows: request_id,
        request_start_ns
    FROM measured
    WHERE
        work_latency_ns IS NOT NULL
        -- Only the leader of the controllers holds the fetches of the others until there is news.
        AND NOT (is_fetch AND coalesce(client_id, '') LIKE 'raft-client-%')
),
binned AS (
    SELECT
        api_name,
        asker,
        broker_ip,
        broker_port,
        amount_bin(time_ns) AS bin,
        count(*) AS many,
        min(time_ns) AS lowest,
        max(time_ns) AS highest
    FROM times
    GROUP BY ALL
),
ranked AS (
    SELECT
        *,
        CAST(sum(many) OVER (PARTITION BY api_name, asker, broker_ip, broker_port ORDER BY bin) AS BIGINT)
            AS up_to,
        CAST(sum(many) OVER (PARTITION BY api_name, asker, broker_ip, broker_port) AS BIGINT) AS of_all
    FROM binned
),
of_addresses AS (
    SELECT
        api_name,
        asker,
        broker_ip,
        broker_port,
        CAST(sum(many) AS BIGINT) AS requests,
        bin_quantile(99, many, up_to, of_all, lowest, highest) AS p99_ns
    FROM ranked
    GROUP BY api_name, asker, broker_ip, broker_port
    HAVING sum(many) >= $least_requests
),
of_brokers AS (
    SELECT
        of_addresses.*,
        controllers.broker_ip IS NOT NULL AS is_controller
    FROM of_addresses
    LEFT JOIN controllers USING (broker_ip, broker_port)
),
slow AS (
    SELECT
        own.api_name,
        own.asker,
        own.broker_ip,
        own.broker_port,
        own.requests,
        own.p99_ns,
        coalesce(
            percentile_disc(0.5) WITHIN GROUP (ORDER BY others.p99_ns DESC)
            FILTER (WHERE others.broker_port = own.broker_port),
            percentile_disc(0.5) WITHIN GROUP (ORDER BY others.p99_ns DESC)
        ) AS others_p99_ns
    FROM of_brokers AS own
    JOIN of_brokers AS others
        ON own.api_name = others.api_name
        AND own.asker = others.asker
        AND own.is_controller = others.is_controller
        AND (own.broker_ip <> others.broker_ip OR own.broker_port <> others.broker_port)
        AND own.p99_ns >= $least_latency_ms * 1000000
    GROUP BY own.api_name, own.asker, own.broker_ip, own.broker_port, own.requests, own.p99_ns
    HAVING own.p99_ns >= $least_ratio * others_p99_ns
)
SELECT
    slow.broker_ip,
    slow.broker_port,
    slow.api_name,
    concat(
        count(*), ' of ', slow.requests, ' requests took more than ',
        in_ms(slow.others_p99_ns), ' ms, within which 99 % are answered by other brokers; its own 99 % within ',
        in_ms(slow.p99_ns), ' ms',
        CASE WHEN slow.asker = 'replica' THEN '; these are fetches of other brokers' END
    ) AS what,
    -- rows: list(times.request_id) AS request_ids,
    slow.p99_ns / 1e6 AS weight,
    -- Some are late by chance, or in a pause, at any time: a twentieth is left out at either end.
    list_sort(list(times.request_start_ns))[count(*) // 20 + 1] AS first_time_ns,
    list_sort(list(times.request_start_ns))[-1 - count(*) // 20] AS last_time_ns
FROM slow
JOIN times
    ON slow.api_name = times.api_name
    AND slow.asker = times.asker
    AND slow.broker_ip = times.broker_ip
    AND slow.broker_port = times.broker_port
    AND slow.others_p99_ns < times.time_ns
GROUP BY
    slow.broker_ip,
    slow.broker_port,
    slow.api_name,
    slow.asker,
    slow.requests,
    slow.p99_ns,
    slow.others_p99_ns
HAVING
    count(*) >= $least_slow
    AND count(*) >= $least_share * slow.requests
    AND count(DISTINCT times.request_start_ns // 1000000000) >= $least_seconds
