-- Who sends how much to whom: client, user, group, topic, direction and broker.
--
-- A request counts in the line of each topic that it produces to or fetches from. Its bytes on the wire
-- are divided among these by their bytes of records; evenly, if there are no records. So the bytes
-- of all lines are those of all requests. Requests without records have a line without a topic.
WITH topics AS (
    SELECT
        request_id,
        topic,
        CASE WHEN topic IS NULL THEN topic_id END AS topic_id,
        sum(record_count) FILTER (WHERE coalesce(error_code, 0) = 0) AS record_count,
        sum(record_bytes) FILTER (WHERE coalesce(error_code, 0) = 0) AS record_bytes,
        coalesce(sum(record_bytes), 0) AS all_bytes,
        bool_or(coalesce(error_code, 0) <> 0) AS is_refused
    FROM partitions
    WHERE is_record_api(api_name)
    GROUP BY request_id, topic, CASE WHEN topic IS NULL THEN topic_id END
),
shared AS (
    SELECT
        *,
        CASE
            WHEN sum(all_bytes) OVER of_request > 0
                THEN CAST(all_bytes AS DOUBLE) / sum(all_bytes) OVER of_request
            ELSE 1e0 / count(*) OVER of_request
        END AS share,
        bool_or(is_refused) OVER of_request AS has_refused
    FROM topics
    WINDOW of_request AS (PARTITION BY request_id)
),
lines AS (
    SELECT
        coalesce(
            inner_connections.traffic,
            CASE
                WHEN is_replica_client(requests.client_id) THEN 'replica'
                -- MirrorMaker 2 names its clients SOURCE->TARGET|CONNECTOR.
                WHEN regexp_matches(requests.client_id, '->[^|]*[|]') THEN 'mirror'
                ELSE 'client'
            END
        ) AS traffic,
        CASE
            WHEN is_produce_api(api_name) THEN 'produce'
            WHEN is_record_api(api_name) THEN 'fetch'
            ELSE 'other'
        END AS direction,
        requests.client_id,
        requests.client_ip,
        requests.principal,
        coalesce(requests.group_id, client_groups.group_id) AS group_id,
        client_software_name,
        client_software_version,
        shared.topic,
        shared.topic_id,
        broker_ip,
        broker_port,
        coalesce(share, 1) * coalesce(request_bytes, 0) AS request_bytes,
        coalesce(share, 1) * coalesce(response_bytes, 0) AS response_bytes,
        shared.record_count,
        shared.record_bytes,
        -- A code that is not of a topic is of the whole request.
        status = 'error' AND (is_refused OR has_refused IS NOT TRUE) AS is_error,
        request_start_ns
    FROM requests
    LEFT JOIN shared USING (request_id)
    LEFT JOIN inner_connections USING (connection, connection_number)
    LEFT JOIN client_groups
        ON requests.client_ip = client_groups.client_ip
        AND requests.client_id = client_groups.client_id
        AND requests.principal IS NOT DISTINCT FROM client_groups.principal
        AND NOT is_produce_api(api_name)
    WHERE status <> 'orphan_response'
)
SELECT
    traffic,
    direction,
    client_id,
    client_ip,
    principal,
    group_id,
    client_software_name,
    client_software_version,
    topic,
    topic_id,
    broker_ip,
    broker_port,
    count(*) AS requests,
    CAST(count(*) FILTER (WHERE is_error) AS BIGINT) AS errors,
    CAST(coalesce(sum(record_count), 0) AS BIGINT) AS record_count,
    CAST(coalesce(sum(record_bytes), 0) AS BIGINT) AS record_bytes,
    CAST(round(sum(request_bytes)) AS BIGINT) AS request_bytes,
    CAST(round(sum(response_bytes)) AS BIGINT) AS response_bytes,
    min(request_start_ns) AS first_time_ns,
    make_timestamp_ns(nullif(min(request_start_ns), 9223372036854775807)) AS first_time,
    max(request_start_ns) AS last_time_ns,
    make_timestamp_ns(nullif(max(request_start_ns), 9223372036854775807)) AS last_time
FROM lines
GROUP BY
    traffic, direction, client_id, client_ip, principal, group_id, client_software_name,
    client_software_version, topic, topic_id, broker_ip, broker_port
