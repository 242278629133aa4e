-- Clients that request metadata again and again.
--
-- severity: 72
-- sure: likely: clients send so many Metadata requests after errors, or if a topic does not exist.
-- why: The client makes no progress, and each request is answered from the whole cluster's metadata; many such clients load every broker.
-- repair: UNKNOWN_TOPIC_OR_PARTITION: correct the topic's name, or create the topic. LEADER_NOT_AVAILABLE, LISTENER_NOT_FOUND: look at the brokers that should lead. Without an error: metadata.max.age.ms (topic.metadata.refresh.interval.ms) is far too short, or connections fail.
-- only if requests: max(CASE WHEN api_name = 'Metadata' THEN request_start_ns END) - min(CASE WHEN api_name = 'Metadata' THEN request_start_ns END) >= $least_span_s * 1000000000
-- parameter longest_between_s = 5: maximum mean of the seconds between requests on a connection
-- parameter least_span_s = 30: minimum seconds over which this goes on
WITH of_connections AS (
    -- Not by client id: a tool that is started again and again has the same id each time.
    SELECT
        client_id,
        client_ip,
        connection,
        connection_number,
        count(*) AS requests,
        count(*) FILTER (WHERE is_error) AS failed,
        min(request_start_ns) AS first_time_ns,
        max(request_start_ns) AS last_time_ns,
        min(request_packet) AS first_packet
    FROM measured
    WHERE api_name = 'Metadata' AND request_start_ns IS NOT NULL
    GROUP BY client_id, client_ip, connection, connection_number
),
asked AS (
    SELECT
        client_id,
        client_ip,
        count(*) AS connections,
        sum(requests) AS requests,
        sum(failed) AS failed,
        min(first_time_ns) AS first_time_ns,
        max(last_time_ns) AS last_time_ns,
        min(first_packet) AS first_packet
    FROM of_connections
    WHERE
        last_time_ns - first_time_ns >= $least_span_s * 1000000000
        AND last_time_ns - first_time_ns <= $longest_between_s * 1000000000 * (requests - 1)
    GROUP BY client_id, client_ip
),
told AS (
    SELECT
        client_id,
        client_ip,
        min(topic) AS topic,
        count(DISTINCT topic) AS topics,
        array_to_string(list_sort(list(DISTINCT error_name)), ', ') AS error_names
    FROM errors
    WHERE api_name = 'Metadata'
    GROUP BY client_id, client_ip
)
SELECT
    asked.client_id,
    asked.client_ip,
    CASE WHEN told.topics = 1 THEN told.topic END AS topic,
    'Metadata' AS api_name,
    concat(
        requests, ' Metadata requests in ', in_s(last_time_ns - first_time_ns), ' s on ',
        number_text(connections, 'connection'), ', ',
        failed, ' answered with an error',
        CASE WHEN failed > 0 THEN concat(' (', error_names, ')') ELSE '' END,
        CASE WHEN topics > 1 THEN concat(', of ', topics, ' topics') ELSE '' END
    ) AS what,
    requests AS weight,
    first_time_ns,
    last_time_ns,
    first_packet
FROM asked
LEFT JOIN told
    ON asked.client_id IS NOT DISTINCT FROM told.client_id AND asked.client_ip = told.client_ip
ORDER BY weight DESC, asked.client_id NULLS LAST, asked.client_ip
