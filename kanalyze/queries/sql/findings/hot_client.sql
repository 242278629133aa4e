-- Clients with far more traffic than the others.
--
-- severity: 20
-- sure: certain: bytes are those of requests and responses.
-- why: One client that takes most of a broker's network threads makes all others wait.
-- repair: A quota (producer_byte_rate, consumer_byte_rate, request_percentage) bounds it; or spread its work over time.
-- parameter least_ratio = 5: times the mean of all clients, at least
-- parameter least_clients = 5: clients to compare with, at least
WITH of_clients AS (
    SELECT
        client_id,
        sum(coalesce(request_bytes, 0) + coalesce(response_bytes, 0)) AS bytes,
        min(request_start_ns) AS first_time_ns,
        max(request_start_ns) AS last_time_ns,
        min(request_packet) AS first_packet
    FROM measured
    WHERE is_request
    GROUP BY client_id
),
compared AS (
    SELECT
        *,
        sum(bytes) OVER () AS all_bytes,
        count(*) OVER () AS clients
    FROM of_clients
)
SELECT
    client_id,
    concat(
        CAST(round(100.0 * bytes / all_bytes) AS BIGINT), ' % of the bytes of ', clients, ' clients'
    ) AS what,
    bytes AS weight,
    first_time_ns,
    last_time_ns,
    first_packet
FROM compared
WHERE clients >= $least_clients AND bytes * clients >= $least_ratio * all_bytes
ORDER BY weight DESC, client_id NULLS LAST
