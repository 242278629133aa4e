-- Requests without an answer, with what their connection and the broker say of it.
--
-- kept: two findings read it.
--
-- A response after the client has closed the connection is no answer. Requests are left out if the
-- capture may lack the response: if it has gaps, or only one direction of the connection.
-- `lowest_version` and `highest_version` are what the broker announced of the API at any time; null
-- if nothing is known, or if it did not announce the API.
WITH announced AS (
    SELECT DISTINCT
        broker_ip,
        broker_port,
        concat(' ', announced) AS ranges
    FROM metadata
    WHERE kind = 'versions'
),
unanswered AS (
    SELECT
        requests.request_id,
        requests.client_id,
        requests.client_ip,
        requests.wire,
        requests.api_key,
        requests.api_name,
        requests.api_version,
        requests.acks,
        requests.max_wait_ms,
        requests.broker_ip,
        requests.broker_port,
        requests.connection,
        requests.connection_number,
        requests.request_start_ns,
        requests.request_end_ns,
        requests.response_start_ns,
        connections.closed_by,
        connections.closed_ns,
        connections.client_retransmitted_packets
    FROM requests
    JOIN connections USING (connection, connection_number)
    WHERE
        (
            requests.status = 'unanswered'
            OR (requests.response_start_ns > connections.closed_ns AND connections.closed_by = 'client')
        )
        AND connections.client_lost_bytes = 0
        AND connections.broker_lost_bytes = 0
        -- A record of TLS that is cut short cannot be decrypted, so a response in it is missing too.
        AND NOT (coalesce(connections.tls_decrypted, false) AND connections.broker_snapped_bytes > 0)
        AND connections.broker_packets > 0
),
compared AS (
    SELECT
        unanswered.request_id,
        min(
            CAST(nullif(regexp_extract(ranges, concat(' ', api_key, ':([0-9]+)-'), 1), '') AS INTEGER)
        ) AS lowest_version,
        max(
            CAST(
                nullif(regexp_extract(ranges, concat(' ', api_key, ':[0-9]+-([0-9]+)'), 1), '')
                AS INTEGER
            )
        ) AS highest_version
    FROM unanswered
    JOIN announced USING (broker_ip, broker_port)
    WHERE unanswered.wire = 'kafka'
    GROUP BY unanswered.request_id
)
SELECT
    unanswered.*,
    compared.lowest_version,
    compared.highest_version,
    removed_versions.first_version > unanswered.api_version AS is_removed,
    -- A client sends its newest ApiVersions before it knows anything.
    compared.request_id IS NOT NULL
    AND unanswered.api_key <> 18
    AND (
        compared.highest_version IS NULL
        OR unanswered.api_version NOT BETWEEN compared.lowest_version AND compared.highest_version
    ) AS is_unannounced
FROM unanswered
LEFT JOIN compared ON unanswered.request_id = compared.request_id
LEFT JOIN removed_versions ON unanswered.api_key = removed_versions.api_key
