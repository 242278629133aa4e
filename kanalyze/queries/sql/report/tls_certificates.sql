-- Certificates that were seen in TLS handshakes: whose, by whom, until when.
--
-- only if connections: count(tls_certificate_subject) > 0 OR count(tls_client_certificate_subject) > 0
SELECT
    sent_by,
    subject,
    issuer,
    not_after_ns,
    count(*) AS connections,
    not_after_ns < max(start_ns) AS expired
FROM certificates
WHERE subject IS NOT NULL
GROUP BY sent_by, subject, issuer, not_after_ns
ORDER BY not_after_ns NULLS LAST, sent_by, subject, issuer
LIMIT $most_keys
