-- Clients that ask for topics that do not exist.
--
-- severity: 73
-- sure: certain: the broker's responses say so, for longer than a new topic takes to become known. That the name is misspelt is a guess from names alike.
-- why: Nothing is produced to the topic or fetched from it; the client asks again until it gives up.
-- repair: Correct the name in the client, or create the topic (auto.create.topics.enable is off, or the client does not allow it). A topic that was deleted and made again has another id: clients learn it from the next metadata, old ones only when they are restarted.
-- only if errors: max(CASE WHEN error_code IN (3, 100, 103) THEN response_start_ns END) - min(CASE WHEN error_code IN (3, 100, 103) THEN response_start_ns END) >= $least_span_s * 1000000000
-- parameter least_span_s = 3: minimum seconds over which this goes on
-- parameter least_requests = 3: minimum number of refused requests
-- parameter longest_between_s = 5: maximum mean of the seconds between requests of brokers that copy a topic: less often is a topic that is made, and later deleted
WITH failed AS (
    SELECT
        client_id,
        client_ip,
        topic,
        -- rows: list(DISTINCT request_id) AS request_ids,
        count(DISTINCT request_id) AS refused,
        names_text(api_name) AS api_names,
        names_text(error_name) AS error_names,
        CASE WHEN min(error_name) = max(error_name) THEN min(error_name) END AS error_name,
        CASE WHEN min(api_name) = max(api_name) THEN min(api_name) END AS api_name,
        min(request_start_ns) AS first_time_ns,
        max(request_start_ns) AS last_time_ns,
        max(response_start_ns) - min(response_start_ns) AS span_ns
    FROM errors
    WHERE error_code IN (
        3,   -- UNKNOWN_TOPIC_OR_PARTITION
        100, -- UNKNOWN_TOPIC_ID
        103  -- INCONSISTENT_TOPIC_ID
    )
    GROUP BY client_id, client_ip, topic
    HAVING
        count(DISTINCT request_id) >= $least_requests
        AND max(response_start_ns) - min(response_start_ns) >= $least_span_s * 1000000000
        -- Brokers hear of a topic that is made or deleted one after the other, and ask again at once.
        AND (
            NOT is_replica_client(client_id)
            OR max(response_start_ns) - min(response_start_ns)
            <= $longest_between_s * 1000000000 * (count(DISTINCT request_id) - 1)
        )
),
-- Evidence for and against: when the topic was there, and names alike.
there AS (
    SELECT
        topic,
        min(response_start_ns) AS first_ns,
        max(response_start_ns) AS last_ns
    FROM partitions
    WHERE topic IS NOT NULL AND error_code = 0 AND status = 'ok'
    GROUP BY topic
),
alike AS (
    SELECT
        failed.topic,
        names_text(there.topic) AS names
    FROM failed
    JOIN there ON levenshtein(failed.topic, there.topic) BETWEEN 1 AND 2
    WHERE length(failed.topic) >= 4
    GROUP BY failed.topic
)
SELECT
    client_id,
    client_ip,
    failed.topic,
    api_name,
    error_name,
    concat(
        number_text(refused, 'request'), ' refused (', api_names, ': ', error_names, '), over ',
        in_s(span_ns), ' s; ',
        CASE
            WHEN failed.topic IS NULL THEN 'the topic''s id has no name in this capture'
            WHEN there.last_ns < first_time_ns
                THEN concat('until ', in_s(first_time_ns - there.last_ns), ' s before, the topic was there')
            -- One broker hears of it before another.
            WHEN there.first_ns < first_time_ns AND there.last_ns < first_time_ns + 1000000000
                THEN 'until then, the topic was there'
            WHEN there.first_ns > last_time_ns
                THEN concat(in_s(there.first_ns - last_time_ns), ' s later, the topic is there')
            WHEN there.topic IS NOT NULL THEN 'other requests of the topic are answered meanwhile'
            ELSE 'the topic is nowhere in this capture'
        END,
        CASE
            WHEN there.topic IS NULL AND alike.names IS NOT NULL
                THEN concat('; a name like it is ', alike.names)
        END
    ) AS what,
    -- rows: request_ids,
    refused AS weight,
    first_time_ns,
    last_time_ns
FROM failed
LEFT JOIN there ON failed.topic = there.topic
LEFT JOIN alike ON failed.topic = alike.topic
