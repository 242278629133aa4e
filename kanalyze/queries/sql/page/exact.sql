-- Exact quantiles of latency by the given keys, from `quantiles`.
WITH binned AS (
    SELECT
        waited,
        CASE WHEN $by_client THEN page_number(client, $clients) END AS client,
        CASE WHEN $by_api THEN page_number(api, $apis) END AS api,
        CASE WHEN $by_broker THEN page_number(broker, $brokers) END AS broker,
        CASE WHEN $by_topic THEN page_number(topic, $topics) END AS topic,
        CASE WHEN $by_bucket THEN page_bucket(time_ns, $start_ns, $bucket_ns) END AS bucket,
        latency_bin,
        count(*) AS many,
        min(latency_ns) AS lowest,
        max(latency_ns) AS highest
    FROM page_requests
    WHERE latency_ns IS NOT NULL AND ($by_topic OR NOT is_again)
    GROUP BY 1, 2, 3, 4, 5, 6, 7
),
ranked AS (
    SELECT
        *,
        CAST(sum(many) OVER (PARTITION BY waited, client, api, broker, topic, bucket ORDER BY latency_bin) AS BIGINT)
            AS up_to,
        CAST(sum(many) OVER (PARTITION BY waited, client, api, broker, topic, bucket) AS BIGINT) AS of_all
    FROM binned
)
SELECT
    waited,
    client,
    api,
    broker,
    topic,
    bucket,
    bin_quantile(50, many, up_to, of_all, lowest, highest) AS p50,
    bin_quantile(90, many, up_to, of_all, lowest, highest) AS p90,
    bin_quantile(99, many, up_to, of_all, lowest, highest) AS p99,
    max(highest) AS max
FROM ranked
GROUP BY waited, client, api, broker, topic, bucket
ORDER BY waited, client, api, broker, topic, bucket
LIMIT $most_cells
