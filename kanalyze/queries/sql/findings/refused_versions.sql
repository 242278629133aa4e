-- Clients whose versions the broker refuses.
--
-- severity: 90
-- sure: likely: UNSUPPORTED_VERSION is certain. A Kafka 4 broker closes the connection after a version that 4.0 removed (KIP-896), but it may close it for another reason.
-- why: These clients cannot work with this broker: they connect, send a request, are disconnected, and connect again.
-- repair: Upgrade the client library: Java clients from 2.1 on, librdkafka from 1.8.2 on, and others of their age, send newer versions. Remove settings that fix old versions (broker.version.fallback, api.version.request=false, api_version).
-- only if requests: bool_or(status = 'unanswered' OR error_code = 35)
-- parameter least_requests = 1: minimum number of refused requests
WITH refused AS (
    SELECT
        requests.client_id,
        requests.client_ip,
        requests.broker_ip,
        requests.broker_port,
        requests.request_start_ns,
        requests.request_packet,
        requests.status,
        concat(requests.connection, ' ', requests.connection_number) AS closed_connection,
        concat(requests.api_name, ' v', requests.api_version) AS version
    FROM requests
    JOIN connections USING (connection, connection_number)
    LEFT JOIN removed_versions AS removed ON requests.api_key = removed.api_key
    WHERE
        -- A client sends its newest ApiVersions first, and an older one after such a response.
        (requests.error_code = 35 AND requests.api_key <> 18)
        OR (
            requests.api_version < removed.first_version
            AND requests.status = 'unanswered'
            AND connections.closed_by = 'broker'
        )
)
SELECT
    client_id,
    client_ip,
    broker_ip,
    broker_port,
    concat(
        number_text(count(*), 'request'), ' refused: ',
        array_to_string(list_sort(list(DISTINCT version)), ', '), '; ',
        count(*) FILTER (WHERE status = 'error'), ' answered UNSUPPORTED_VERSION, ',
        number_text(count(DISTINCT closed_connection) FILTER (WHERE status <> 'error'), 'time'),
        ' the broker closed the connection'
    ) AS what,
    count(*) AS weight,
    min(request_start_ns) AS first_time_ns,
    max(request_start_ns) AS last_time_ns,
    min(request_packet) AS first_packet
FROM refused
GROUP BY client_id, client_ip, broker_ip, broker_port
HAVING count(*) >= $least_requests
ORDER BY weight DESC, client_id NULLS LAST, client_ip, broker_ip, broker_port
