-- The capture has only one direction.
--
-- severity: 34
-- show: connections
-- sure: certain: one end sends, and no packet of the other end was captured.
-- why: Requests have no responses, or responses no requests: latency, errors and throttling are unknown.
-- repair: Capture where both directions pass: on the host of the broker or the client, not on one of several paths; mirror received and sent packets; a filter such as "port 9092", not "dst port 9092".
-- only if connections: bool_or(client_packets = 0 OR broker_packets = 0)
-- parameter least_connections = 1: minimum number of such connections
-- parameter least_packets = 3: minimum number of packets of each
WITH one_way AS (
    SELECT
        CASE WHEN broker_packets = 0 THEN 'the client' ELSE 'the broker' END AS heard,
        -- rows: concat(connection, ' ', connection_number) AS connection_key,
        broker_ip,
        broker_port,
        start_ns,
        end_ns
    FROM connections
    WHERE
        (
            broker_packets = 0
            AND client_payload_bytes > 0
            AND client_packets >= $least_packets
            -- Otherwise the other end may not have answered at all.
            AND (opened_by = 'client' OR requests > 1)
        )
        OR (client_packets = 0 AND broker_payload_bytes > 0 AND broker_packets >= $least_packets)
)
SELECT
    broker_ip,
    broker_port,
    concat(
        'of ', number_text(count(*), 'connection'),
        ' only the packets of ', heard
    ) AS what,
    -- rows: list(connection_key) AS connection_keys,
    count(*) AS weight,
    min(start_ns) AS first_time_ns,
    max(end_ns) AS last_time_ns
FROM one_way
GROUP BY broker_ip, broker_port, heard
HAVING count(*) >= $least_connections
