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
    page_number(r.client, $clients) AS client,
    page_number(r.api, $apis) AS api,
    page_number(r.broker, $brokers) AS broker,
    page_number(r."group", $groups) AS "group",
    list(page_number(r.topic, $topics) ORDER BY r.topic) AS topics,
    page_bucket(min(r.time_ns), $start_ns, $bucket_ns) AS bucket,
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
