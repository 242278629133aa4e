-- Certificates that were seen in TLS handshakes: whose, by whom, until when.
WITH seen AS (
    SELECT
        'broker' AS sent_by,
        tls_certificate_subject AS subject,
        tls_certificate_issuer AS issuer,
        tls_certificate_not_after_ns AS not_after_ns,
        start_ns
    FROM connections
    WHERE tls_certificate_subject IS NOT NULL
    UNION ALL
    SELECT
        'client' AS sent_by,
        tls_client_certificate_subject AS subject,
        tls_client_certificate_issuer AS issuer,
        tls_client_certificate_not_after_ns AS not_after_ns,
        start_ns
    FROM connections
    WHERE tls_client_certificate_subject IS NOT NULL
)
SELECT
    sent_by,
    subject,
    issuer,
    not_after_ns,
    count(*) AS connections,
    not_after_ns < max(start_ns) AS expired
FROM seen
GROUP BY sent_by, subject, issuer, not_after_ns
ORDER BY not_after_ns NULLS LAST, sent_by, subject, issuer
LIMIT $most_keys
