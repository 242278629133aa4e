-- Error codes of responses, one per line, with some columns of the request.
SELECT
    r.request_id,
    r.capture,
    r.connection,
    r.connection_number,
    r.client_ip,
    r.broker_ip,
    r.broker_port,
    r.client_id,
    r.principal,
    r.group_id,
    r.wire,
    r.api_key,
    r.api_name,
    r.api_version,
    r.correlation_id,
    r.request_start_ns,
    r.response_start_ns,
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
