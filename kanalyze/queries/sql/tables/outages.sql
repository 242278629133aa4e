-- Brokers that accepted no connections for a while, and what happened meanwhile.
--
-- kept: two findings read it.
--
-- Attempts before the first connection that was served, and those after it, are two lines: a broker
-- may come up while it is captured, and go away later. `left_ns` is the time of its last response
-- before, `back_ns` the start of the first connection that it served afterwards, or that it opened to
-- another broker to copy partitions, if it had none open; null if the capture has none. `refused_writes` are those that too few replicas, or none in time, had taken; `lost` are
-- those that it got and did not answer; `longest_write_ns` is of all brokers. `moved` are the clients
-- that other brokers answered meanwhile.
WITH opened AS (
    SELECT
        *,
        sum(CASE WHEN is_served THEN 1 ELSE 0 END) OVER (
            PARTITION BY broker_ip, broker_port
            ORDER BY start_ns, first_packet
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS served
    FROM attempts
    WHERE is_vain OR is_served
),
served AS (
    SELECT
        broker_ip,
        broker_port,
        count(*) AS served
    FROM opened
    WHERE is_served
    GROUP BY broker_ip, broker_port
),
failed AS (
    SELECT
        opened.broker_ip,
        opened.broker_port,
        opened.served > 0 AS is_after,
        -- rows: list(opened.connection_key) AS connection_keys,
        count(*) AS attempts,
        count(DISTINCT opened.client_ip) AS clients,
        count(*) FILTER (WHERE opened.closed_by = 'broker') AS refused,
        max(opened.served) - min(opened.served) AS served_between,
        max(served.served) AS served_ever,
        min(opened.start_ns) AS first_ns,
        max(opened.start_ns) AS last_ns,
        min(opened.first_packet) AS first_packet
    FROM opened
    JOIN served USING (broker_ip, broker_port)
    WHERE opened.is_vain
    GROUP BY opened.broker_ip, opened.broker_port, opened.served > 0
    -- Each is compared with all requests.
    ORDER BY attempts DESC, opened.broker_ip, opened.broker_port
    LIMIT 40
),
returned AS (
    SELECT
        failed.broker_ip,
        failed.broker_port,
        failed.is_after,
        min(opened.start_ns) AS back_ns
    FROM failed
    JOIN opened
        ON failed.broker_ip = opened.broker_ip
        AND failed.broker_port = opened.broker_port
        AND failed.last_ns < opened.start_ns
    WHERE opened.is_served
    GROUP BY failed.broker_ip, failed.broker_port, failed.is_after
),
copies AS (
    SELECT
        failed.broker_ip,
        failed.broker_port,
        failed.is_after,
        min(connections.start_ns) FILTER (WHERE connections.start_ns > failed.last_ns) AS back_ns
    FROM failed
    JOIN connections
        ON failed.broker_ip = connections.client_ip
        -- Brokers on one machine have the same address.
        AND connections.client_ip <> connections.broker_ip
        AND connections.broker_payload_bytes > 0
        AND is_replica_client(connections.client_id)
        -- A controller on the same node may end later.
        AND connections.client_id NOT LIKE 'raft-client-%'
    GROUP BY failed.broker_ip, failed.broker_port, failed.is_after
    HAVING
        count(*) FILTER (
            WHERE
                connections.start_ns <= failed.last_ns
                AND coalesce(connections.end_ns, failed.last_ns) >= failed.last_ns
        ) = 0
),
spoken AS (
    SELECT
        failed.broker_ip,
        failed.broker_port,
        failed.is_after,
        max(CASE WHEN requests.response_start_ns < failed.first_ns THEN requests.response_start_ns END)
            AS left_ns,
        -- The clock of one capture point: a response at the same time is not afterwards.
        count(*) FILTER (
            WHERE requests.response_start_ns > failed.first_ns AND requests.response_start_ns < failed.last_ns
        ) AS answered
    FROM failed
    JOIN requests
        ON failed.broker_ip = requests.broker_ip
        AND failed.broker_port = requests.broker_port
        AND requests.response_start_ns < failed.last_ns
    GROUP BY failed.broker_ip, failed.broker_port, failed.is_after
),
bounded AS (
    SELECT
        failed.*,
        spoken.left_ns,
        coalesce(spoken.answered, 0) AS answered,
        coalesce(returned.back_ns, copies.back_ns) AS back_ns,
        coalesce(spoken.left_ns, failed.first_ns) AS from_ns,
        -- Writes fail until replicas are back.
        coalesce(returned.back_ns, copies.back_ns, 9223372036854775807) AS until_ns
    FROM failed
    LEFT JOIN spoken USING (broker_ip, broker_port, is_after)
    LEFT JOIN returned USING (broker_ip, broker_port, is_after)
    LEFT JOIN copies USING (broker_ip, broker_port, is_after)
),
moved AS (
    SELECT
        bounded.broker_ip,
        bounded.broker_port,
        bounded.is_after,
        count(DISTINCT tried.client_ip) AS moved
    FROM bounded
    JOIN (
        SELECT DISTINCT
            broker_ip,
            broker_port,
            served > 0 AS is_after,
            client_ip
        FROM opened
        WHERE is_vain
    ) AS tried USING (broker_ip, broker_port, is_after)
    JOIN requests
        ON tried.client_ip = requests.client_ip
        AND (bounded.broker_ip <> requests.broker_ip OR bounded.broker_port <> requests.broker_port)
        AND requests.response_start_ns
        BETWEEN bounded.first_ns AND coalesce(bounded.back_ns, bounded.last_ns)
    GROUP BY bounded.broker_ip, bounded.broker_port, bounded.is_after
),
writes AS (
    SELECT
        broker_ip,
        broker_port,
        api_name,
        status,
        error_code,
        request_start_ns,
        latency_ns
    FROM requests
    WHERE
        (is_produce_api(api_name) OR api_name IN ('OffsetCommit', 'TxnOffsetCommit', 'EndTxn'))
        AND (status = 'unanswered' OR error_code IN (7, 19, 20) OR latency_ns >= 1000000000)
),
suffered AS (
    SELECT
        bounded.broker_ip,
        bounded.broker_port,
        bounded.is_after,
        count(*) FILTER (WHERE writes.error_code IN (7, 19, 20)) AS refused_writes,
        count(*) FILTER (
            WHERE
                writes.status = 'unanswered'
                AND writes.broker_ip = bounded.broker_ip
                AND writes.broker_port = bounded.broker_port
        ) AS lost,
        max(writes.latency_ns) AS longest_write_ns
    FROM bounded
    JOIN writes
        ON writes.request_start_ns BETWEEN bounded.from_ns - 1000000000 AND bounded.until_ns
    GROUP BY bounded.broker_ip, bounded.broker_port, bounded.is_after
)
SELECT
    bounded.*,
    controllers.broker_ip IS NOT NULL AS is_controller,
    coalesce(suffered.refused_writes, 0) AS refused_writes,
    coalesce(suffered.lost, 0) AS lost,
    coalesce(moved.moved, 0) AS moved,
    suffered.longest_write_ns,
    bounded.back_ns IS NOT NULL
    AND bounded.served_between = 0
    AND bounded.answered = 0
    AND suffered.broker_ip IS NULL AS is_orderly
FROM bounded
LEFT JOIN suffered USING (broker_ip, broker_port, is_after)
LEFT JOIN moved USING (broker_ip, broker_port, is_after)
LEFT JOIN controllers USING (broker_ip, broker_port)
