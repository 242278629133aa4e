-- Error codes in responses by code, API, client and topic: when, how often, in bursts.
--
-- kept: several findings read it.
--
-- A burst ends when there is no such code for 10 s. `asked` counts all requests of that API by the
-- client; one response may have a code for several partitions. `first_time_ns` and `last_time_ns`
-- are times of requests, `span_ns` is from the first such response to the last. The columns are
-- those of a finding. Where a login or an authorization failed, `what` names the
-- user; `group_id` is the group that a client may not use.
WITH codes AS (
    SELECT
        *,
        response_start_ns - lag(response_start_ns) OVER (
            PARTITION BY error_code, api_name, client_id, topic ORDER BY response_start_ns
        ) AS since_last_ns
    FROM errors
),
sent AS (
    SELECT
        client_id,
        api_name,
        count(*) AS asked
    FROM requests
    WHERE request_bytes IS NOT NULL
    GROUP BY client_id, api_name
),
counted AS (
    SELECT
        -- rows: list(DISTINCT codes.request_id) AS request_ids,
        codes.error_code,
        min(codes.error_name) AS error_name,
        codes.api_name,
        codes.client_id,
        codes.topic,
        min(codes.principal) AS principal,
        CASE WHEN count(DISTINCT codes.group_id) = 1 THEN min(codes.group_id) END AS group_id,
        count(DISTINCT codes.request_id) AS refused,
        max(sent.asked) AS asked,
        count(*) FILTER (WHERE coalesce(since_last_ns, 10000000000) >= 10000000000) AS bursts,
        min(codes.request_start_ns) AS first_time_ns,
        max(codes.request_start_ns) AS last_time_ns,
        max(codes.response_start_ns) - min(codes.response_start_ns) AS span_ns
    FROM codes
    LEFT JOIN sent
        ON codes.client_id IS NOT DISTINCT FROM sent.client_id
        AND codes.api_name IS NOT DISTINCT FROM sent.api_name
    GROUP BY codes.error_code, codes.api_name, codes.client_id, codes.topic
)
SELECT
    error_code,
    error_name,
    api_name,
    client_id,
    topic,
    CASE WHEN error_code = 30 THEN group_id END AS group_id,
    concat(
        refused, ' of ', asked, ' ', coalesce(api_name, '?'), ' requests refused',
        CASE
            WHEN error_code IN (29, 30, 31, 33, 34, 53, 58, 65) AND principal IS NOT NULL
                THEN concat(' to user ', principal)
        END,
        CASE
            WHEN refused > 1 THEN concat(', over ', in_s(span_ns), ' s in ', number_text(bursts, 'burst'))
        END
    ) AS what,
    -- rows: request_ids,
    refused AS weight,
    first_time_ns,
    last_time_ns
FROM counted
