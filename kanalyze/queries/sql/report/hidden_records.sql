-- Whether requests may be missing because TLS could not be read.
--
-- That is so after a record that is cut short, or if a connection to a port of Kafka is not decrypted.
--
-- only if connections: count(tls_decrypted) > 0
WITH kafka AS (
    SELECT broker_ip, broker_port
    FROM connections
    WHERE protocol = 'kafka'
    GROUP BY broker_ip, broker_port
)
SELECT count(*) > 0 AS may_be_missing
FROM connections
LEFT JOIN kafka
    ON kafka.broker_ip = connections.broker_ip AND kafka.broker_port = connections.broker_port
WHERE
    (tls_decrypted AND client_snapped_bytes + broker_snapped_bytes > 0)
    OR (
        NOT tls_decrypted
        AND tls_failure IS NULL
        AND coalesce(estimated_requests, 1) > 0
        AND kafka.broker_port IS NOT NULL
    )
