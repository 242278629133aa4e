-- The capture holds one direction alone.
--
-- severity: 34
-- show: connections
-- sure: certain: one end speaks, and all it says is for an end of which no packet was captured.
-- why: Requests stand without their answers, or answers without their requests: no latency, no error, no throttling is known.
-- repair: Capture where both directions pass: on the host of the broker or the client, not on one of several paths; mirror received and sent packets; a filter such as "port 9092", not "dst port 9092".
-- parameter least_connections = 1: such connections, at least
-- parameter least_packets = 3: packets of each, at least
WITH one_way AS (
    SELECT
        CASE WHEN broker_packets = 0 THEN 'the client' ELSE 'the broker' END AS heard,
        broker_ip,
        broker_port,
        start_ns,
        end_ns,
        first_packet
    FROM connections
    WHERE
        (
            broker_packets = 0
            AND client_payload_bytes > 0
            AND client_packets >= $least_packets
            -- Else it may be that nobody answers.
            AND (opened_by = 'client' OR requests > 1)
        )
        OR (client_packets = 0 AND broker_payload_bytes > 0 AND broker_packets >= $least_packets)
)
SELECT
    broker_ip,
    broker_port,
    concat('of ', count(*), ' connections only what ', heard, ' sends') AS what,
    count(*) AS weight,
    min(start_ns) AS first_time_ns,
    max(end_ns) AS last_time_ns,
    min(first_packet) AS first_packet
FROM one_way
GROUP BY broker_ip, broker_port, heard
HAVING count(*) >= $least_connections
ORDER BY weight DESC, broker_ip, broker_port, heard
