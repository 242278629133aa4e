-- Connections with an old version of TLS, or a weak cipher suite.
--
-- severity: 40
-- sure: certain: the broker chose it in its hello, which is not encrypted.
-- why: TLS 1.0 and 1.1 (RFC 8996), RC4 (RFC 7465) and 3DES are withdrawn; the padding of CBC has leaked plaintext; without forward secrecy, anyone who gets the broker's key can decrypt old captures. Libraries drop them one by one, and then such clients can no longer connect.
-- repair: Enable only TLS 1.2 and 1.3, and suites with ECDHE and GCM or ChaCha20 (ssl.enabled.protocols, ssl.cipher.suites of broker and clients); upgrade clients that support neither.
-- see: tls
-- show: connections
-- only if connections: bool_or(tls_version IS NOT NULL)
-- parameter least_connections = 1: minimum number of connections
WITH weak AS (
    SELECT
        connections.*,
        concat(
            CASE WHEN tls_version IN ('SSL 3.0', 'TLS 1.0', 'TLS 1.1') THEN ', old version' END,
            CASE
                WHEN
                    tls_version <> 'TLS 1.3'
                    AND tls_cipher_suite LIKE 'TLS_%'
                    AND tls_cipher_suite NOT LIKE 'TLS_ECDHE_%'
                    AND tls_cipher_suite NOT LIKE 'TLS_DHE_%'
                    AND tls_cipher_suite NOT LIKE 'TLS_ECCPWD_%'
                    THEN ', no forward secrecy'
            END,
            CASE WHEN tls_cipher_suite LIKE '%!_CBC%' ESCAPE '!' THEN ', CBC' END,
            CASE WHEN tls_cipher_suite LIKE '%!_3DES!_%' ESCAPE '!' THEN ', 3DES' END,
            CASE WHEN tls_cipher_suite LIKE '%!_RC4!_%' ESCAPE '!' THEN ', RC4' END,
            CASE WHEN tls_cipher_suite LIKE '%!_NULL%' ESCAPE '!' THEN ', no encryption' END
        ) AS faults
    FROM connections
    WHERE tls_version IS NOT NULL
)
SELECT
    broker_ip,
    broker_port,
    concat(
        number_text(count(*), 'connection'), ' of ',
        number_text(count(DISTINCT client_ip), 'client'), ': ', tls_version, ', ',
        tls_cipher_suite, ' (', substring(faults, 3), ')'
    ) AS what,
    -- rows: list(concat(connection, ' ', connection_number)) AS connection_keys,
    count(*) AS weight,
    min(start_ns) AS first_time_ns,
    max(end_ns) AS last_time_ns
FROM weak
WHERE faults <> ''
GROUP BY broker_ip, broker_port, tls_version, tls_cipher_suite, faults
HAVING count(*) >= $least_connections
