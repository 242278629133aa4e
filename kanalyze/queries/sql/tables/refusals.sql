-- Error codes in answers by code, API, client and topic: since when, how often, in bursts.
--
-- A burst ends where 10 s go by without such a code. `asked` counts the requests of that API that
-- the client sent in all; one answer may tell a code for several partitions.
WITH told AS (
    SELECT
        *,
        response_start_ns - lag(response_start_ns) OVER (
            PARTITION BY error_code, api_name, client_id, topic ORDER BY response_start_ns
        ) AS since_last_ns
    FROM errors
),
of_clients AS (
    SELECT
        client_id,
        api_name,
        count(*) AS asked
    FROM requests
    WHERE request_start_ns IS NOT NULL
    GROUP BY client_id, api_name
)
SELECT
    told.error_code,
    min(told.error_name) AS error_name,
    told.api_name,
    told.client_id,
    told.topic,
    min(told.client_ip) AS client_ip,
    min(told.principal) AS principal,
    count(DISTINCT told.request_id) AS refused,
    max(of_clients.asked) AS asked,
    count(*) FILTER (WHERE coalesce(since_last_ns, 10000000000) >= 10000000000) AS bursts,
    min(told.response_start_ns) AS first_time_ns,
    max(told.response_start_ns) AS last_time_ns,
    min(told.request_packet) AS first_packet
FROM told
LEFT JOIN of_clients
    ON told.client_id IS NOT DISTINCT FROM of_clients.client_id
    AND told.api_name IS NOT DISTINCT FROM of_clients.api_name
GROUP BY told.error_code, told.api_name, told.client_id, told.topic
