-- Clients that a broker throttles.
--
-- severity: 60
-- sure: certain: the broker says so, in throttle_time_ms of its responses.
-- why: The broker delays what it answers or stops reading from the client until the quota is kept; latency and lag grow.
-- repair: Raise the quota of the user or client id (kafka-configs.sh --alter --entity-type clients), or send less: larger batches, compression, fewer requests.
-- parameter least_throttle_ms = 1: throttle time of a response, at least
SELECT
    client_id,
    concat(
        count(*), ' of ', max(of_client), ' responses throttled, ', sum(throttle_time_ms),
        ' ms in all, ', max(throttle_time_ms), ' ms at most'
    ) AS what,
    sum(throttle_time_ms) AS weight,
    min(response_start_ns) AS first_time_ns,
    max(response_start_ns) AS last_time_ns,
    min(request_packet) AS first_packet
FROM (
    SELECT
        *,
        count(*) OVER (PARTITION BY client_id) AS of_client
    FROM measured
    WHERE is_request
) AS counted
WHERE throttle_time_ms >= $least_throttle_ms
GROUP BY client_id
ORDER BY weight DESC, client_id NULLS LAST
