-- Clients that connect over and over.
--
-- severity: 65
-- sure: certain: every connection was captured from its beginning to its end.
-- why: Each connection costs the broker a handshake, perhaps TLS and a login, and occupies threads; requests wait for all of that.
-- repair: Keep one client for the life of the process instead of one per request. If connections are refused, find out why, and raise reconnect.backoff.max.ms.
-- caused by rebalances: group_id
-- caused by login_failures: client_id
-- caused by refused_versions: client_id client_ip
-- caused by closed_after_produce: client_id client_ip
-- caused by closed_at_api_versions: client_ip
-- caused by wrong_protocol: client_ip
-- show: connections
-- only if connections: count(*) FILTER (WHERE "end" IN ('fin', 'reset', 'reused') AND duration_ns <= $longest_s * 1000000000) >= $least_connections
-- parameter least_per_s = 1: minimum connections per second
-- parameter least_connections = 30: minimum number of connections
-- parameter longest_s = 10: maximum seconds that a counted connection lasts
WITH joined AS (
    SELECT
        client_ip,
        client_id,
        CASE WHEN count(DISTINCT group_id) = 1 THEN min(group_id) END AS group_id
    FROM requests
    WHERE api_name IN ('JoinGroup', 'ConsumerGroupHeartbeat')
    GROUP BY client_ip, client_id
),
counted AS (
    SELECT
        client_ip,
        client_id,
        -- rows: list(concat(connection, ' ', connection_number)) AS connection_keys,
        count(*) AS connections,
        count(DISTINCT concat(broker_ip, ' ', broker_port)) AS brokers,
        count(*) FILTER (WHERE closed_by = 'broker') AS closed_by_broker,
        avg(requests) AS requests_each,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY duration_ns) AS duration_ns,
        min(start_ns) AS first_time_ns,
        max(start_ns) AS last_time_ns
    FROM connections
    WHERE
        protocol IN ('kafka', 'kafka-0.7', 'tls')
        -- Failed TLS sessions have a finding of their own, tls_failed.
        AND tls_failure IS NULL
        -- Connections that stay open are as they should be.
        AND "end" IN ('fin', 'reset', 'reused')
        AND opened_by IS NOT NULL
        AND duration_ns <= $longest_s * 1000000000
    GROUP BY client_ip, client_id
)
SELECT
    counted.client_id,
    counted.client_ip,
    joined.group_id,
    concat(
        number_text(connections, 'short connection'), ' to ', number_text(brokers, 'broker'),
        ' in ', in_s(last_time_ns - first_time_ns), ' s, half of them within ',
        CAST(round(duration_ns / 1e6) AS BIGINT), ' ms',
        ', ' || round(requests_each * 10) / 10 || ' requests on each',
        '; ', closed_by_broker, ' closed by the broker'
    ) AS what,
    -- rows: connection_keys,
    connections AS weight,
    first_time_ns,
    last_time_ns
FROM counted
LEFT JOIN joined
    ON counted.client_ip = joined.client_ip AND counted.client_id IS NOT DISTINCT FROM joined.client_id
WHERE
    connections >= $least_connections
    AND connections * 1000000000.0 >= $least_per_s * (last_time_ns - first_time_ns)
