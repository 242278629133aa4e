-- Error codes of responses, one per line, with some columns of the request.
SELECT
    r.request_id,
    r.capture,
    r.connection,
    r.connection_number,
    r.client_ip,
    r.broker_ip,
    r.broker_port,
    r.client_software_name,
    r.client_software_version,
    r.client_id,
    r.principal,
    r.group_id,
    r.wire,
    r.api_key,
    r.api_name,
    r.api_version,
    r.correlation_id,
    r.request_start_ns,
    make_timestamp_ns(nullif(r.request_start_ns, 9223372036854775807)) AS request_start_time,
    r.response_start_ns,
    make_timestamp_ns(nullif(r.response_start_ns, 9223372036854775807)) AS response_start_time,
    r.latency_ns,
    r.waited,
    r.request_packet,
    r.response_packet,
    r.e.topic,
    r.e."partition",
    r.e.code AS error_code,
    r.e.name AS error_name
FROM (
    SELECT
        *,
        unnest(errors) AS e
    FROM requests
) AS r
