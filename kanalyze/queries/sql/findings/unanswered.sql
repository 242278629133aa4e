-- Requests that were never answered.
--
-- severity: 80
-- sure: likely: no response was captured before the connection closed, and nothing of the connection is missing.
-- why: The client waits for its request.timeout.ms, closes the connection, and tries again elsewhere.
-- repair: Look at what the broker did at that time: a long garbage collection, a full request queue, a disk that hangs; and whether a firewall drops the connection.
-- parameter least_wait_s = 1: seconds that it had been waited for, at least
WITH waiting AS (
    SELECT
        requests.client_id,
        requests.api_name,
        requests.broker_ip,
        requests.broker_port,
        requests.request_start_ns,
        requests.request_packet,
        connections.end_ns - requests.request_end_ns AS waited_ns,
        connections."end" AS end_word,
        connections.closed_by
    FROM requests
    JOIN connections
        ON requests.connection = connections.connection
        AND requests.connection_number = connections.connection_number
    WHERE
        requests.status = 'unanswered'
        -- Where the capture has gaps, the answer may be in one.
        AND connections.client_lost_bytes + connections.broker_lost_bytes = 0
)
SELECT
    client_id,
    api_name,
    broker_ip,
    broker_port,
    concat(
        count(*), ' without an answer, after up to ', round(max(waited_ns) / 1e9, 1), ' s; ',
        count(*) FILTER (WHERE closed_by = 'client'), ' times the client closed the connection'
    ) AS what,
    count(*) AS weight,
    min(request_start_ns) AS first_time_ns,
    max(request_start_ns) AS last_time_ns,
    min(request_packet) AS first_packet
FROM waiting
WHERE waited_ns >= $least_wait_s * 1000000000 AND end_word <> 'open'
GROUP BY client_id, api_name, broker_ip, broker_port
ORDER BY weight DESC, client_id NULLS LAST, api_name NULLS LAST, broker_ip, broker_port
