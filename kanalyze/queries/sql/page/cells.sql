-- Sums of requests by all dimensions of the page, and by spans of time.
--
-- A request counts when it begins. `latencies` has the number of latencies in each bin: bin b has
-- those from $bin_ratio^b ns to below $bin_ratio^(b + 1) ns. Bins below 0 have negative latencies, of responses
-- that were captured before their requests: bin -1 - b has those of which bin b has the opposite.
SELECT
    page_number(client, $clients) AS client,
    page_number(api, $apis) AS api,
    page_number(version, $versions) AS version,
    page_number(broker, $brokers) AS broker,
    page_number("group", $groups) AS "group",
    page_number(topic, $topics) AS topic,
    is_again,
    waited,
    status,
    page_bucket(time_ns, $start_ns, $bucket_ns) AS bucket,
    count(*) AS rows,
    count(*) FILTER (WHERE is_answered) AS responses,
    count(*) FILTER (WHERE is_unread) AS unread,
    sum(request_bytes) AS request_bytes,
    sum(response_bytes) AS response_bytes,
    sum(records) AS records,
    sum(record_bytes) AS record_bytes,
    count(*) FILTER (WHERE is_uncounted) AS uncounted,
    count(*) FILTER (WHERE is_throttled) AS throttled,
    max(latency_ns) AS max_ns,
    histogram(
        CAST(
            CASE
                WHEN latency_ns < 0 THEN -1 - floor(ln(-CAST(latency_ns AS DOUBLE)) / ln($bin_ratio))
                ELSE floor(ln(CASE WHEN latency_ns < 1 THEN 1 ELSE latency_ns END) / ln($bin_ratio))
            END
            AS INTEGER
        )
    ) AS latencies
FROM page_requests
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
ORDER BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
LIMIT $most_cells
