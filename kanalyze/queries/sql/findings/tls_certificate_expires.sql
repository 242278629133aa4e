-- Certificates that have expired, or are about to.
--
-- severity: 72
-- sure: certain: the dates are in the certificates. Others are not seen: TLS 1.3 encrypts certificates, and a resumed session sends none.
-- why: From that moment on every new connection fails. Open connections continue, so the fault seems to spread slowly.
-- repair: Renew the certificate, and have the process load it (brokers take a new keystore without a restart: kafka-configs.sh --alter --add-config ssl.keystore.location).
-- see: tls_certificates
-- show: connections
-- only if connections: bool_or(tls_certificate_not_after_ns IS NOT NULL OR tls_client_certificate_not_after_ns IS NOT NULL)
-- parameter days = 30: maximum days from a connection to the end of its certificate
WITH judged AS (
    SELECT
        *,
        -- At the last connection: the certificate may have expired after earlier ones.
        (not_after_ns - max(start_ns) OVER (
            PARTITION BY sent_by, client_ip, broker_ip, broker_port, subject, issuer, not_after_ns
        )) / 8.64e13 AS days
    FROM certificates
    WHERE
        not_after_ns IS NOT NULL
        -- What has failed for that reason is told by `tls_failed`.
        AND (tls_failure IS NULL OR not_after_ns >= start_ns)
)
SELECT
    client_ip,
    broker_ip,
    broker_port,
    concat(
        'the ', sent_by, '''s certificate ', subject, ' (signed by ', issuer, ') ',
        CASE
            WHEN days < 0 THEN concat('expired ', round(-days * 10) / 10, ' days before')
            ELSE concat('expires in ', round(days * 10) / 10, ' days')
        END,
        '; ', number_text(count(*), 'connection')
    ) AS what,
    -- rows: list(connection_key) AS connection_keys,
    -days AS weight,
    min(start_ns) AS first_time_ns,
    max(end_ns) AS last_time_ns
FROM judged
WHERE days <= $days
GROUP BY sent_by, client_ip, broker_ip, broker_port, subject, issuer, not_after_ns, days
