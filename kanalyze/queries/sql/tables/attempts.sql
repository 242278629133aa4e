-- Connections with columns that say whether a client reached the broker.
--
-- `is_vain`: the broker's end refused the connection, or did not answer. `is_served`: it answered, in
-- Kafka or in TLS.
SELECT
    -- rows: concat(connection, ' ', connection_number) AS connection_key,
    broker_ip,
    broker_port,
    client_ip,
    start_ns,
    first_packet,
    closed_by,
    client_syn_retransmissions,
    broker_payload_bytes > 0 AS is_answered,
    protocol IN ('kafka', 'kafka-0.7', 'tls') AND broker_payload_bytes > 0 AS is_served,
    opened_by = 'client' AND client_payload_bytes = 0 AND broker_payload_bytes = 0
    AND (
        ("end" = 'reset' AND closed_by = 'broker')
        OR (broker_packets = 0 AND client_syn_retransmissions > 0)
    ) AS is_vain
FROM connections
