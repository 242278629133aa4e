-- Exact quantiles of latency, by what is asked for.
SELECT
    waited,
    CASE WHEN $by_client THEN CASE WHEN client < $clients THEN client ELSE -1 END END AS client,
    CASE WHEN $by_api THEN CASE WHEN api < $apis THEN api ELSE -1 END END AS api,
    CASE WHEN $by_broker THEN CASE WHEN broker < $brokers THEN broker ELSE -1 END END AS broker,
    CASE WHEN $by_topic THEN CASE WHEN topic < $topics THEN topic ELSE -1 END END AS topic,
    CASE WHEN $by_bucket THEN coalesce((time_ns - $start_ns) // $bucket_ns, -1) END AS bucket,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY latency_ns) AS p50,
    percentile_disc(0.9) WITHIN GROUP (ORDER BY latency_ns) AS p90,
    percentile_disc(0.99) WITHIN GROUP (ORDER BY latency_ns) AS p99,
    max(latency_ns) AS max
FROM page_requests
WHERE latency_ns IS NOT NULL AND ($by_topic OR NOT is_again)
GROUP BY 1, 2, 3, 4, 5, 6
ORDER BY 1, 2, 3, 4, 5, 6
LIMIT $most_cells
