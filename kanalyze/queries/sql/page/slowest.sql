-- The slowest requests of all, and of each client with each API, without those that waited.
WITH ranked AS (
    SELECT
        request_id,
        row_number() OVER (
            ORDER BY work_latency_ns DESC, coalesce(request_start_ns, 0), request_id
        ) AS place,
        row_number() OVER (
            PARTITION BY client_id, api_name
            ORDER BY work_latency_ns DESC, coalesce(request_start_ns, 0), request_id
        ) AS own_place
    FROM measured
    WHERE work_latency_ns IS NOT NULL
),
chosen AS (
    SELECT
        request_id,
        place
    FROM ranked
    WHERE place <= $most_of_all OR own_place <= $most_of_each
    ORDER BY place
    LIMIT $most
),
kept AS (
    SELECT
        measured.*,
        chosen.place
    FROM measured
    JOIN chosen ON measured.request_id = chosen.request_id
)
SELECT
    kept.place,
    kept.connection,
    CASE WHEN r.client < $clients THEN r.client ELSE -1 END AS client,
    CASE WHEN r.api < $apis THEN r.api ELSE -1 END AS api,
    CASE WHEN r.broker < $brokers THEN r.broker ELSE -1 END AS broker,
    CASE WHEN r."group" < $groups THEN r."group" ELSE -1 END AS "group",
    list(CASE WHEN r.topic < $topics THEN r.topic ELSE -1 END ORDER BY r.topic) AS topics,
    coalesce((min(r.time_ns) - $start_ns) // $bucket_ns, -1) AS bucket,
    kept.client_id,
    kept.api_key,
    kept.api_name,
    kept.api_version,
    kept.latency_ns,
    kept.request_send_ns,
    kept.broker_network_ns,
    kept.retransmission_wait_ns,
    kept.pipeline_wait_ns,
    kept.broker_time_ns,
    kept.response_send_ns,
    kept.request_start_ns,
    kept.request_packet,
    kept.response_packet,
    kept.status,
    kept.error_name
FROM kept
JOIN page_requests AS r ON kept.request_id = r.request_id
GROUP BY ALL
ORDER BY kept.place
