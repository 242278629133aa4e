-- The capture has only the beginning of packets.
--
-- severity: 30
-- show: connections
-- sure: certain: the packets say how long they were.
-- why: Requests and responses in what was cut off are counted, but their content is unknown: errors, topics and records are missing from every figure. Under TLS they are not counted either, and requests may seem unanswered: a record that is cut short cannot be decrypted.
-- repair: Capture again with whole packets: tcpdump -s 0, dumpcap without -s.
-- only if connections: bool_or(client_snapped_bytes > 0 OR broker_snapped_bytes > 0)
-- parameter least_bytes = 1: minimum number of bytes cut off
WITH cut AS (
    SELECT
        sum(client_snapped_bytes) + sum(broker_snapped_bytes) AS bytes,
        sum(client_payload_bytes) + sum(broker_payload_bytes) AS captured_bytes,
        -- rows: list(concat(connection, ' ', connection_number)) AS connection_keys,
        count(*) AS connections,
        count(*) FILTER (WHERE protocol = 'tls' OR tls_decrypted) AS tls_connections,
        min(start_ns) AS first_time_ns,
        max(end_ns) AS last_time_ns
    FROM connections
    WHERE client_snapped_bytes > 0 OR broker_snapped_bytes > 0
)
SELECT
    concat(
        bytes, ' B cut off packets of ', number_text(connections, 'connection'),
        CASE WHEN tls_connections > 0 THEN concat(' (', tls_connections, ' with TLS)') END,
        '; ', captured_bytes, ' B were captured'
    ) AS what,
    -- rows: connection_keys,
    bytes AS weight,
    first_time_ns,
    last_time_ns
FROM cut
WHERE bytes >= $least_bytes
