-- Clients that a broker throttles.
--
-- severity: 60
-- sure: certain: the broker says so, in throttle_time_ms of its responses.
-- why: The broker delays what it answers or stops reading from the client until the quota is kept; latency and lag grow. A client that sends within the time it was told to wait is made to wait by the broker, which reads nothing from it meanwhile.
-- repair: Raise the quota of the user or client id (kafka-configs.sh --alter --entity-type clients), or send less: larger batches, compression, fewer requests. A client that does not wait is to be upgraded: since Kafka 2.0 (KIP-219) the waiting is the client's.
-- parameter least_throttle_ms = 1: throttle time of a response, at least
WITH throttled AS (
    SELECT DISTINCT
        connection,
        connection_number
    FROM requests
    WHERE throttle_time_ms >= $least_throttle_ms
),
in_order AS (
    SELECT
        requests.client_id,
        requests.throttle_time_ms,
        requests.request_start_ns,
        requests.response_start_ns,
        requests.request_packet,
        lag(requests.response_end_ns) OVER of_connection AS told_ns,
        lag(requests.throttle_time_ms) OVER of_connection AS to_wait_ms
    FROM requests
    JOIN throttled
        ON requests.connection = throttled.connection
        AND requests.connection_number = throttled.connection_number
    WHERE requests.request_start_ns IS NOT NULL
    WINDOW of_connection AS (
        PARTITION BY requests.connection, requests.connection_number
        ORDER BY requests.request_start_ns, requests.request_packet
    )
)
SELECT
    client_id,
    concat(
        count(*) FILTER (WHERE throttle_time_ms >= $least_throttle_ms), ' of ', count(*),
        ' responses throttled, ',
        sum(throttle_time_ms) FILTER (WHERE throttle_time_ms >= $least_throttle_ms),
        ' ms in all, ', max(throttle_time_ms), ' ms at most; ',
        count(*) FILTER (
            WHERE request_start_ns >= told_ns AND request_start_ns < told_ns + to_wait_ms * 1000000
        ),
        ' requests sent within the time to wait'
    ) AS what,
    sum(throttle_time_ms) FILTER (WHERE throttle_time_ms >= $least_throttle_ms) AS weight,
    min(response_start_ns) FILTER (WHERE throttle_time_ms >= $least_throttle_ms) AS first_time_ns,
    max(response_start_ns) FILTER (WHERE throttle_time_ms >= $least_throttle_ms) AS last_time_ns,
    min(request_packet) FILTER (WHERE throttle_time_ms >= $least_throttle_ms) AS first_packet
FROM in_order
GROUP BY client_id
HAVING max(throttle_time_ms) >= $least_throttle_ms
ORDER BY weight DESC, client_id NULLS LAST
