-- Logins that a broker refuses.
--
-- severity: 88
-- sure: certain: the broker says so, before it closes the connection.
-- why: The client cannot work; each attempt costs the broker a connection, perhaps TLS, and a hash of the password.
-- repair: Correct user, password and mechanism of that client (sasl.jaas.config, sasl.mechanism), or create the user (kafka-configs.sh --alter --entity-type users); raise reconnect.backoff.max.ms of clients that retry without a pause.
-- only if errors: bool_or(error_code IN (33, 34, 58))
-- parameter least_requests = 1: minimum number of refused requests
SELECT *
FROM refusals
WHERE weight >= $least_requests AND error_code IN (
    33, -- UNSUPPORTED_SASL_MECHANISM
    34, -- ILLEGAL_SASL_STATE
    58  -- SASL_AUTHENTICATION_FAILED
)
