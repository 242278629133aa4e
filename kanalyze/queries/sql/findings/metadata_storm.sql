-- Clients that request metadata again and again.
--
-- severity: 72
-- sure: likely: clients send so many Metadata requests after errors, or if a topic does not exist.
-- why: Each request is answered from the whole cluster's metadata, so many such clients load every broker; one that does nothing else meanwhile makes no progress.
-- repair: LEADER_NOT_AVAILABLE, LISTENER_NOT_FOUND: look at the brokers that should lead. Without an error: look for what else of the client fails; if nothing does, metadata.max.age.ms (topic.metadata.refresh.interval.ms) is far too short.
-- caused by unknown_topic: client_id client_ip
-- caused by stale_leader: client_id
-- caused by wrong_listener: client_ip
-- caused by broker_away
-- only if requests: max(CASE WHEN api_name = 'Metadata' THEN request_start_ns END) - min(CASE WHEN api_name = 'Metadata' THEN request_start_ns END) >= $least_span_s * 1000000000
-- parameter longest_between_s = 5: maximum seconds between two requests on a connection; after more, it has stopped
-- parameter least_span_s = 30: minimum seconds over which this goes on
WITH asked AS (
    -- Not by client id: a tool that is started again and again has the same id each time.
    SELECT
        client_id,
        client_ip,
        connection,
        connection_number,
        -- rows: request_id,
        is_error,
        request_start_ns,
        coalesce(
            request_start_ns - lag(request_start_ns) OVER (
                PARTITION BY connection, connection_number ORDER BY request_start_ns
            ) > $longest_between_s * 1000000000,
            true
        ) AS begins
    FROM measured
    WHERE api_name = 'Metadata' AND request_start_ns IS NOT NULL
),
numbered AS (
    SELECT
        *,
        count(*) FILTER (WHERE begins) OVER (
            PARTITION BY connection, connection_number
            ORDER BY request_start_ns
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS run
    FROM asked
),
runs AS (
    SELECT
        client_id,
        client_ip,
        connection,
        connection_number,
        run,
        -- rows: list(request_id) AS request_ids,
        count(*) AS requests,
        count(*) FILTER (WHERE is_error) AS failed,
        min(request_start_ns) AS first_time_ns,
        max(request_start_ns) AS last_time_ns
    FROM numbered
    GROUP BY ALL
    HAVING max(request_start_ns) - min(request_start_ns) >= $least_span_s * 1000000000
),
-- While a broker cannot be reached, clients ask who leads instead.
searching AS (
    SELECT DISTINCT
        runs.connection,
        runs.connection_number,
        runs.run
    FROM runs
    JOIN attempts
        ON runs.client_ip = attempts.client_ip
        AND attempts.start_ns BETWEEN runs.first_time_ns AND runs.last_time_ns
    WHERE attempts.is_vain
),
storms AS (
    SELECT
        runs.client_id,
        runs.client_ip,
        count(DISTINCT concat(runs.connection, ' ', runs.connection_number)) AS connections,
        -- rows: flatten(list(runs.request_ids)) AS request_ids,
        sum(runs.requests) AS requests,
        sum(runs.failed) AS failed,
        min(runs.first_time_ns) AS first_time_ns,
        max(runs.last_time_ns) AS last_time_ns
    FROM runs
    LEFT JOIN searching USING (connection, connection_number, run)
    WHERE searching.run IS NULL OR runs.failed > 0
    GROUP BY runs.client_id, runs.client_ip
),
worked AS (
    SELECT
        storms.client_id,
        storms.client_ip,
        count(*) AS requests,
        count(*) FILTER (WHERE measured.status IN ('ok', 'one_way')) AS succeeded
    FROM storms
    JOIN measured
        ON storms.client_id IS NOT DISTINCT FROM measured.client_id
        AND storms.client_ip = measured.client_ip
        AND measured.request_start_ns BETWEEN storms.first_time_ns AND storms.last_time_ns
    WHERE measured.is_produce OR measured.is_fetch
    GROUP BY storms.client_id, storms.client_ip
),
told AS (
    SELECT
        client_id,
        client_ip,
        min(topic) AS topic,
        count(DISTINCT topic) AS topics,
        names_text(error_name) AS error_names
    FROM errors
    WHERE api_name = 'Metadata'
    GROUP BY client_id, client_ip
)
SELECT
    storms.client_id,
    storms.client_ip,
    CASE WHEN told.topics = 1 THEN told.topic END AS topic,
    'Metadata' AS api_name,
    concat(
        storms.requests, ' Metadata requests in ', in_s(last_time_ns - first_time_ns), ' s on ',
        number_text(connections, 'connection'), ', ',
        failed, ' answered with an error',
        CASE WHEN failed > 0 THEN concat(' (', error_names, ')') END,
        CASE WHEN topics > 1 THEN concat(', of ', topics, ' topics') END,
        CASE
            WHEN worked.requests IS NULL THEN '; meanwhile it neither produced nor fetched'
            ELSE concat(
                '; meanwhile ', worked.succeeded, ' of ', number_text(worked.requests, 'request'),
                ' to produce or to fetch succeeded'
            )
        END
    ) AS what,
    -- rows: storms.request_ids,
    storms.requests AS weight,
    first_time_ns,
    last_time_ns
FROM storms
LEFT JOIN worked
    ON storms.client_id IS NOT DISTINCT FROM worked.client_id
    AND storms.client_ip = worked.client_ip
LEFT JOIN told
    ON storms.client_id IS NOT DISTINCT FROM told.client_id AND storms.client_ip = told.client_ip
