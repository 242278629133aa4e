-- Clients that a broker throttles.
--
-- severity: 60
-- sure: certain: the broker says so, in throttle_time_ms of its responses.
-- why: Until the client is within its quota, the broker delays responses or stops reading from the client; latency and lag grow. If a client sends before the throttle time is over, the broker enforces it by reading nothing from it.
-- repair: Raise the quota of the user or client id (kafka-configs.sh --alter --entity-type clients), or send less: larger batches, compression, fewer requests. Upgrade a client that does not wait: since Kafka 2.0 (KIP-219) clients have to wait themselves.
-- only if requests: max(throttle_time_ms) >= $least_throttle_ms
-- parameter least_throttle_ms = 1: minimum throttle time of a response
WITH throttled AS (
    SELECT DISTINCT
        connection,
        connection_number
    FROM requests
    WHERE throttle_time_ms >= $least_throttle_ms
),
in_order AS (
    SELECT
        -- rows: requests.request_id,
        requests.client_id,
        requests.throttle_time_ms,
        requests.request_start_ns,
        requests.response_start_ns,
        lag(requests.response_end_ns) OVER of_connection AS told_ns,
        lag(requests.throttle_time_ms) OVER of_connection AS to_wait_ms
    FROM requests
    JOIN throttled USING (connection, connection_number)
    WHERE requests.request_start_ns IS NOT NULL
    WINDOW of_connection AS (
        PARTITION BY requests.connection, requests.connection_number
        ORDER BY requests.request_start_ns, requests.request_packet
    )
),
judged AS (
    SELECT
        *,
        request_start_ns >= told_ns
        AND request_start_ns - told_ns < CAST(to_wait_ms AS BIGINT) * 1000000 AS is_early
    FROM in_order
)
SELECT
    client_id,
    concat(
        count(*) FILTER (WHERE throttle_time_ms >= $least_throttle_ms), ' of ',
        -- Only responses: the capture may end before a request is answered.
        number_text(count(response_start_ns), 'response'), ' throttled, ',
        sum(throttle_time_ms) FILTER (WHERE throttle_time_ms >= $least_throttle_ms),
        ' ms in all, ', max(throttle_time_ms), ' ms at most; ',
        number_text(count(*) FILTER (WHERE is_early), 'request'),
        ' sent before the throttle time was over'
    ) AS what,
    -- rows: list(request_id) FILTER (WHERE throttle_time_ms >= $least_throttle_ms) AS request_ids,
    sum(throttle_time_ms) FILTER (WHERE throttle_time_ms >= $least_throttle_ms) AS weight,
    min(request_start_ns) FILTER (WHERE throttle_time_ms >= $least_throttle_ms) AS first_time_ns,
    -- Until the client may send again, or the capture ends.
    max(
        response_start_ns
        + least(CAST(throttle_time_ms AS BIGINT) * 1000000, time_extent.last_ns - response_start_ns)
    ) AS last_time_ns
FROM judged
CROSS JOIN time_extent
GROUP BY client_id
HAVING max(throttle_time_ms) >= $least_throttle_ms
