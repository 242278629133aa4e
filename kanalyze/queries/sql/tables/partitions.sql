-- Partitions of requests, one per line, with some columns of the request.
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
    r.status,
    r.acks,
    r.p.topic,
    r.p.topic_id,
    r.p."partition",
    r.p.record_count,
    r.p.record_bytes,
    r.p.base_offset,
    r.p.high_watermark,
    r.p.codec,
    r.p.error_code,
    r.record_count AS request_record_count
FROM (
    SELECT
        *,
        unnest(partitions) AS p
    FROM requests
) AS r
