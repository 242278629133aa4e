-- The addresses of brokers that speak TLS.
SELECT DISTINCT
    broker_ip,
    broker_port
FROM connections
WHERE tls_version IS NOT NULL
