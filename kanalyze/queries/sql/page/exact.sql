-- Exact quantiles of latency, by what is asked for: by nearest rank.
--
-- Ranks are of sorted rows, which go to files where there is too little memory; the aggregates
-- that give quantiles hold all values.
WITH keyed AS (
    SELECT
        waited,
        CASE WHEN $by_client THEN CASE WHEN client < $clients THEN client ELSE -1 END END
            AS client,
        CASE WHEN $by_api THEN CASE WHEN api < $apis THEN api ELSE -1 END END AS api,
        CASE WHEN $by_broker THEN CASE WHEN broker < $brokers THEN broker ELSE -1 END END
            AS broker,
        CASE WHEN $by_topic THEN CASE WHEN topic < $topics THEN topic ELSE -1 END END AS topic,
        CASE WHEN $by_bucket THEN coalesce((time_ns - $start_ns) // $bucket_ns, -1) END AS bucket,
        latency_ns
    FROM page_requests
    WHERE latency_ns IS NOT NULL AND ($by_topic OR NOT is_again)
),
ranked AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY waited, client, api, broker, topic, bucket
            ORDER BY latency_ns
        ) AS place,
        count(*) OVER (PARTITION BY waited, client, api, broker, topic, bucket) AS many
    FROM keyed
)
SELECT
    waited,
    client,
    api,
    broker,
    topic,
    bucket,
    max(latency_ns) FILTER (WHERE place = (many * 50 + 99) // 100) AS p50,
    max(latency_ns) FILTER (WHERE place = (many * 90 + 99) // 100) AS p90,
    max(latency_ns) FILTER (WHERE place = (many * 99 + 99) // 100) AS p99,
    max(latency_ns) AS max
FROM ranked
GROUP BY waited, client, api, broker, topic, bucket
ORDER BY waited, client, api, broker, topic, bucket
LIMIT $most_cells
