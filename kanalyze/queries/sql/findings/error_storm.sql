-- Clients most of whose requests fail, for long.
--
-- severity: 77
-- sure: certain: the broker's responses say so.
-- why: The client makes no progress with this API: it sends the same again, and is refused again.
-- repair: Look up the error in Kafka's list (kanalyze protocol), and in the logs of client and broker at that time; where the answers to other clients are the same, begin with the broker.
-- caused by wrong_crc: client_id topic
-- only if requests: count(*) FILTER (WHERE status = 'error') >= $least_requests
-- parameter least_requests = 15: minimum number of refused requests, in each burst on average
-- parameter least_share = 0.5: minimum share of the client's requests of that API
-- parameter least_span_s = 10: minimum seconds over which this goes on
WITH refused AS (
    SELECT
        request_id,
        client_id,
        client_ip,
        api_name,
        error_code,
        min(error_name) AS error_name,
        min(topic) AS topic,
        max(topic) AS last_topic,
        min(request_start_ns) AS request_start_ns,
        min(response_start_ns) AS response_start_ns
    FROM errors
    WHERE error_code NOT IN (
        -- These are said by findings of their own.
        1, 3, 6, 10, 18, 19, 20, 21, 29, 30, 31, 32, 33, 34, 35, 44, 45, 46, 47, 53, 56, 58, 59, 65,
        70, 74, 82, 87, 89, 90, 100, 103, 111,
        27, -- REBALANCE_IN_PROGRESS: how a member learns of it
        79  -- MEMBER_ID_REQUIRED: how a member gets its id
    )
    GROUP BY ALL
),
spaced AS (
    SELECT
        *,
        response_start_ns - lag(response_start_ns) OVER (
            PARTITION BY client_id, client_ip, api_name, error_code ORDER BY response_start_ns
        ) AS since_last_ns,
        count(DISTINCT concat(client_ip, ' ', client_id)) OVER (PARTITION BY api_name, error_code)
            AS clients
    FROM refused
),
sent AS (
    SELECT
        client_id,
        client_ip,
        api_name,
        count(*) AS asked
    FROM requests
    WHERE request_bytes IS NOT NULL
    GROUP BY client_id, client_ip, api_name
)
SELECT
    spaced.client_id,
    spaced.client_ip,
    spaced.api_name,
    CASE WHEN min(topic) = max(last_topic) THEN min(topic) END AS topic,
    min(spaced.error_name) AS error_name,
    concat(
        count(*), ' of ', max(sent.asked), ' ', coalesce(spaced.api_name, '?'), ' requests refused, over ',
        in_s(max(response_start_ns) - min(response_start_ns)), ' s; ',
        CASE
            WHEN max(clients) = 1 THEN 'no other client has this error'
            ELSE concat(number_text(max(clients) - 1, 'other client'), ' with this error')
        END
    ) AS what,
    -- rows: list(spaced.request_id) AS request_ids,
    count(*) AS weight,
    min(request_start_ns) AS first_time_ns,
    max(request_start_ns) AS last_time_ns
FROM spaced
JOIN sent
    ON spaced.client_id IS NOT DISTINCT FROM sent.client_id
    AND spaced.client_ip = sent.client_ip
    AND spaced.api_name IS NOT DISTINCT FROM sent.api_name
GROUP BY spaced.client_id, spaced.client_ip, spaced.api_name, spaced.error_code
HAVING
    count(*) >= $least_share * max(sent.asked)
    -- These say that a broker is not ready yet: as long as others are answered, the client goes on.
    AND (
        error_code NOT IN (
            14, -- COORDINATOR_LOAD_IN_PROGRESS
            51  -- CONCURRENT_TRANSACTIONS
        )
        OR count(*) = max(sent.asked)
    )
    -- A burst ends when there is no such response for 10 s.
    AND count(*) >= $least_requests
    * count(*) FILTER (WHERE coalesce(since_last_ns, 10000000000) >= 10000000000)
    AND max(response_start_ns) - min(response_start_ns) >= $least_span_s * 1000000000
