-- The capture has lost packets.
--
-- severity: 32
-- show: anomalies
-- tables: capture_quality
-- sure: certain: the capture says so itself, or the ends acknowledged bytes that it does not have.
-- why: Requests and responses in the gaps are missing from every figure, and some requests that are shown without a response had one.
-- repair: Capture again with a larger buffer (tcpdump -B 65536), a filter for the ports of Kafka, shorter files on a fast disk, or a mirror port that is not overloaded.
-- only if connections: bool_or(client_lost_bytes > 0 OR broker_lost_bytes > 0) OR (SELECT bool_or(value > 0) FROM capture_quality WHERE fact = 'dropped_packets')
-- parameter least_bytes = 1: minimum number of missing bytes
-- parameter least_packets = 1: or minimum number of packets that the capturing program dropped
WITH lost AS (
    SELECT
        coalesce(sum(client_lost_bytes) + sum(broker_lost_bytes), 0) AS bytes,
        sum(client_payload_bytes) + sum(broker_payload_bytes) AS captured_bytes,
        count(*) AS connections,
        min(start_ns) AS first_time_ns,
        max(end_ns) AS last_time_ns
    FROM connections
    WHERE
        (client_lost_bytes > 0 OR broker_lost_bytes > 0)
        AND client_packets > 0
        AND broker_packets > 0
),
dropped AS (
    SELECT coalesce(sum(value), 0) AS packets
    FROM capture_quality
    WHERE fact = 'dropped_packets'
)
SELECT
    concat(
        CASE
            WHEN bytes > 0
                THEN concat(
                    bytes, ' B missing from ', number_text(connections, 'connection'), '; ', captured_bytes,
                    ' B were captured'
                )
        END,
        CASE WHEN bytes > 0 AND packets > 0 THEN '; ' END,
        CASE
            WHEN packets > 0
                THEN concat(number_text(packets, 'packet'), ' dropped by the capturing program')
        END
    ) AS what,
    bytes + packets AS weight,
    first_time_ns,
    last_time_ns
FROM lost
CROSS JOIN dropped
WHERE bytes + packets > 0 AND (bytes >= $least_bytes OR packets >= $least_packets)
