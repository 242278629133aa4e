-- Connections whose TLS hides what they say.
--
-- severity: 28
-- show: connections
-- sure: likely: these connections use TLS, to a port of Kafka or in a capture without any other Kafka.
-- why: Their requests are encrypted, so they are missing from every figure except those of connections and TLS, which estimate requests and response times.
-- repair: Give kanalyze the secrets of the sessions (--keylog FILE; docs/tls.md says how to get them), capture where there is no TLS (behind the proxy that ends it, or on a listener without it), or ask the broker (request log, client metrics).
-- see: tls
-- only if connections: bool_or(protocol = 'tls')
-- parameter least_connections = 1: minimum number of such connections
WITH kafka AS (
    SELECT broker_port
    FROM connections
    WHERE protocol IN ('kafka', 'kafka-0.7')
    GROUP BY broker_port
)
SELECT
    broker_ip,
    broker_port,
    concat(
        count(*), CASE WHEN count(*) = 1 THEN ' connection speaks' ELSE ' connections speak' END, ' TLS, ',
        sum(client_payload_bytes) + sum(broker_payload_bytes), ' B'
    ) AS what,
    -- rows: list(concat(connection, ' ', connection_number)) AS connection_keys,
    count(*) AS weight,
    min(start_ns) AS first_time_ns,
    max(end_ns) AS last_time_ns
FROM connections
WHERE
    protocol = 'tls'
    AND tls_failure IS NULL
    AND (
        broker_port BETWEEN 9091 AND 9099
        OR broker_port IN (SELECT kafka.broker_port FROM kafka)
        OR NOT EXISTS (SELECT 1 FROM kafka)
    )
GROUP BY broker_ip, broker_port
HAVING count(*) >= $least_connections
