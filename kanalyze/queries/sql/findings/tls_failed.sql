-- TLS sessions that fail: one end refuses the other.
--
-- severity: 85
-- sure: certain: an alert names the reason; it is likely alone where the alert is encrypted, or an end closes before the handshake is over.
-- why: The client gets nothing done, and tries again; each try costs the broker a handshake.
-- repair: certificate_expired: renew the certificate. unknown_ca, certificate_unknown, bad_certificate: give who sent the alert the authority of the other's certificate (ssl.truststore.location, ssl.ca.location), and see that the certificate has the name that is connected to. certificate_required, or bad_certificate from the broker: give the client a certificate (ssl.keystore.location), or do not require one (ssl.client.auth). handshake_failure, protocol_version: enable a version and a suite that both have (ssl.enabled.protocols, ssl.cipher.suites). An encrypted alert from the broker is mostly about the client's certificate; the broker's log says it, or the secrets of the session do (--keylog FILE).
-- show: connections
-- parameter least_connections = 1: connections, at least
SELECT
    client_id,
    client_ip,
    broker_ip,
    broker_port,
    concat(
        count(*), CASE WHEN count(*) = 1 THEN ' TLS connection' ELSE ' TLS connections' END, ' in ',
        round((max(start_ns) - min(start_ns)) / 1e9, 1), CASE WHEN count(*) = 1 THEN ' s fails' ELSE ' s fail' END,
        ': the ',
        coalesce(tls_failed_by, 'network'),
        CASE tls_failure
            WHEN 'closed' THEN ' closes before the handshake is over'
            WHEN 'encrypted' THEN ' sends an encrypted alert'
            ELSE concat(' sends the alert ', tls_failure)
        END
    ) AS what,
    count(*) AS weight,
    min(start_ns) AS first_time_ns,
    max(start_ns) AS last_time_ns,
    min(first_packet) AS first_packet
FROM connections
WHERE tls_failure NOT IN ('tls_on_plaintext_port', 'plaintext_on_tls_port')
GROUP BY client_id, client_ip, broker_ip, broker_port, tls_failure, tls_failed_by
HAVING count(*) >= $least_connections
ORDER BY
    weight DESC, client_id NULLS LAST, client_ip, broker_ip, broker_port, tls_failure,
    tls_failed_by NULLS LAST
