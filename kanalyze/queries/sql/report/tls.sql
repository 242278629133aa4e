-- TLS: what connections to each broker agreed on, and whether they could be decrypted.
--
-- only if connections: count(tls_decrypted) > 0
SELECT
    broker_ip,
    broker_port,
    tls_version,
    tls_cipher_suite,
    count(*) AS connections,
    count(*) FILTER (WHERE tls_decrypted) AS decrypted,
    count(*) FILTER (WHERE tls_failure IS NOT NULL) AS failed,
    -- Null if it is not known for any connection.
    CAST(sum(CASE WHEN tls_resumed THEN 1 WHEN NOT tls_resumed THEN 0 END) AS BIGINT) AS resumed,
    CAST(sum(CASE WHEN tls_mutual THEN 1 WHEN NOT tls_mutual THEN 0 END) AS BIGINT) AS mutual,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY tls_handshake_ns) AS handshake_p50_ns,
    sum(client_payload_bytes) AS client_bytes,
    sum(broker_payload_bytes) AS broker_bytes,
    sum(estimated_requests) AS estimated_requests,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY estimated_response_time_median_ns)
        AS estimated_response_time_p50_ns
FROM connections
WHERE tls_decrypted IS NOT NULL
GROUP BY broker_ip, broker_port, tls_version, tls_cipher_suite
ORDER BY
    connections DESC, broker_ip, broker_port, tls_version NULLS LAST, tls_cipher_suite NULLS LAST
LIMIT $most_keys
