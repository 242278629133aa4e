-- Certificates in TLS handshakes, one per line, with some columns of the connection.
SELECT
    'broker' AS sent_by,
    CAST(NULL AS VARCHAR) AS client_ip,
    -- rows: concat(connection, ' ', connection_number) AS connection_key,
    broker_ip,
    broker_port,
    tls_certificate_subject AS subject,
    tls_certificate_issuer AS issuer,
    tls_certificate_not_after_ns AS not_after_ns,
    tls_failure,
    start_ns,
    end_ns
FROM connections
UNION ALL
SELECT
    'client' AS sent_by,
    client_ip,
    -- rows: concat(connection, ' ', connection_number) AS connection_key,
    broker_ip,
    broker_port,
    tls_client_certificate_subject AS subject,
    tls_client_certificate_issuer AS issuer,
    tls_client_certificate_not_after_ns AS not_after_ns,
    tls_failure,
    start_ns,
    end_ns
FROM connections
