-- TLS sessions that fail: one end refuses the other.
--
-- severity: 85
-- sure: certain: an alert names the reason. It is only likely if the alert is encrypted, or one end closes before the handshake is over.
-- why: The client cannot work, and tries again; each attempt costs the broker a handshake.
-- repair: certificate_expired: renew the certificate. unknown_ca, certificate_unknown, bad_certificate: give the sender of the alert the authority of the other end's certificate (ssl.truststore.location, ssl.ca.location), and check that the certificate has the host name that the client connects to. certificate_required, or bad_certificate from the broker: give the client a certificate (ssl.keystore.location), or do not require one (ssl.client.auth). handshake_failure, protocol_version: enable a version and a cipher suite that both ends support (ssl.enabled.protocols, ssl.cipher.suites). An encrypted alert from the broker is mostly about the client's certificate; the broker's log has the reason, and with the secrets of the session (--keylog FILE) the report does.
-- see: tls
-- show: connections
-- only if connections: bool_or(tls_failure IS NOT NULL)
-- parameter least_connections = 1: minimum number of connections
WITH failed AS (
    SELECT
        -- rows: concat(connection, ' ', connection_number) AS connection_key,
        client_id,
        client_ip,
        connections.broker_ip,
        connections.broker_port,
        -- Where others speak TLS, the port is not the reason that one is closed after its hello.
        CASE
            WHEN tls_failure = 'tls_on_plaintext_port' AND tls_ports.broker_port IS NOT NULL THEN 'closed'
            ELSE tls_failure
        END AS tls_failure,
        tls_failed_by,
        CASE
            WHEN tls_certificate_not_after_ns < start_ns
                THEN concat('the broker''s certificate ', tls_certificate_subject)
            WHEN tls_client_certificate_not_after_ns < start_ns
                THEN concat('the client''s certificate ', tls_client_certificate_subject)
        END AS expired,
        start_ns - least(tls_certificate_not_after_ns, tls_client_certificate_not_after_ns) AS since_ns,
        start_ns
    FROM connections
    LEFT JOIN tls_ports USING (broker_ip, broker_port)
    WHERE tls_failure IS NOT NULL
)
SELECT
    client_id,
    client_ip,
    broker_ip,
    broker_port,
    concat(
        number_text(count(*), 'TLS connection'), ' in ',
        in_s(max(start_ns) - min(start_ns)), CASE WHEN count(*) = 1 THEN ' s fails' ELSE ' s fail' END,
        ': the ',
        coalesce(tls_failed_by, 'network'),
        CASE tls_failure
            WHEN 'closed' THEN ' closes before the handshake is over'
            WHEN 'encrypted' THEN ' sends an encrypted alert'
            ELSE concat(' sends the alert ', tls_failure)
        END,
        '; ' || max(expired) || ' expired ' || round(max(since_ns) / 8.64e13 * 10) / 10 || ' days before'
    ) AS what,
    -- rows: list(connection_key) AS connection_keys,
    count(*) AS weight,
    min(start_ns) AS first_time_ns,
    max(start_ns) AS last_time_ns
FROM failed
WHERE tls_failure NOT IN ('tls_on_plaintext_port', 'plaintext_on_tls_port')
GROUP BY client_id, client_ip, broker_ip, broker_port, tls_failure, tls_failed_by
HAVING count(*) >= $least_connections
