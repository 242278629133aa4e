-- Fetch sessions that a broker evicts.
--
-- severity: 45
-- sure: certain: the broker responds FETCH_SESSION_ID_NOT_FOUND. That other sessions evicted them is likely, unless the broker was restarted.
-- why: The client begins a new session and names all of its partitions again, which evicts the sessions of others in turn.
-- repair: Raise max.incremental.fetch.session.cache.slots on the broker (1,000 by default) above the number of consumers and followers that fetch from it, or reduce their number.
-- only if requests: count(*) FILTER (WHERE api_name = 'Fetch' AND error_code = 70) >= $least_answers
-- parameter least_per_s = 0.1: minimum number of such responses per second of the capture
-- parameter least_answers = 3: minimum number of such responses
WITH fetches AS (
    SELECT
        broker_ip,
        broker_port,
        -- rows: request_id,
        client_id,
        concat(connection, ' ', connection_number) AS fetcher,
        error_code IS NOT DISTINCT FROM 70 AS is_lost,
        request_start_ns
    FROM requests
    WHERE api_name = 'Fetch'
)
SELECT
    broker_ip,
    broker_port,
    concat(
        number_text(count(*) FILTER (WHERE is_lost), 'session'), ' not found, on ',
        count(DISTINCT fetcher) FILTER (WHERE is_lost), ' of the ', count(DISTINCT fetcher),
        CASE WHEN count(DISTINCT fetcher) = 1 THEN ' connection that fetches' ELSE ' connections that fetch' END,
        ' from it, of ', number_text(count(DISTINCT client_id) FILTER (WHERE is_lost), 'client id'),
        ' such as ', coalesce(min(client_id) FILTER (WHERE is_lost), 'none')
    ) AS what,
    -- rows: list(request_id) FILTER (WHERE is_lost) AS request_ids,
    count(*) FILTER (WHERE is_lost) AS weight,
    min(request_start_ns) FILTER (WHERE is_lost) AS first_time_ns,
    max(request_start_ns) FILTER (WHERE is_lost) AS last_time_ns,
    'FETCH_SESSION_ID_NOT_FOUND' AS error_name,
    'Fetch' AS api_name
FROM fetches
CROSS JOIN time_extent
GROUP BY broker_ip, broker_port
HAVING
    count(*) FILTER (WHERE is_lost) >= $least_answers
    AND count(*) FILTER (WHERE is_lost) * 1000000000.0 >= $least_per_s * max(last_ns - first_ns)
