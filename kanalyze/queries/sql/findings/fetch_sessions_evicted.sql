-- Fetch sessions that a broker forgets.
--
-- severity: 45
-- sure: certain: the broker answers FETCH_SESSION_ID_NOT_FOUND.
-- why: The client begins a new session and names all its partitions again; the sessions of others are pushed out in turn.
-- repair: Raise max.incremental.fetch.session.cache.slots on the broker (1,000 by default), or have fewer consumers fetch from it.
-- parameter least_per_s = 0.1: such answers per second of the capture, at least
WITH span AS (
    SELECT greatest(max(response_start_ns) - min(request_start_ns), 1) AS capture_ns
    FROM requests
),
lost AS (
    SELECT
        broker_ip,
        broker_port,
        client_id,
        request_start_ns,
        request_packet
    FROM requests
    WHERE api_name = 'Fetch' AND error_code = 70
)
SELECT
    broker_ip,
    broker_port,
    concat(
        count(*), ' sessions not found, of ', count(DISTINCT client_id), ' clients'
    ) AS what,
    count(*) AS weight,
    min(request_start_ns) AS first_time_ns,
    max(request_start_ns) AS last_time_ns,
    min(request_packet) AS first_packet,
    'Fetch' AS api_name
FROM lost
CROSS JOIN span
GROUP BY broker_ip, broker_port
HAVING count(*) * 1000000000.0 >= $least_per_s * max(capture_ns)
ORDER BY weight DESC, broker_ip, broker_port
