-- How long does each client wait for the brokers, day by day?
--
-- latency_ns is the time from the last byte of a request to the first byte of its response, as
-- seen where the capture was made. Left out: requests without a response, and those that the
-- broker held back on purpose (`waited`: a Fetch until there is data, a JoinGroup until all members
-- have come): they say nothing of work. `waited` is null for most, so "is not true", not "is false".
--
-- The percentiles are exact. Days are those of UTC; on Spark those of the session's time zone
-- (spark.sql.session.timeZone), which is UTC in sessions that kanalyze starts.
SELECT
    CAST(make_timestamp(request_start_ns // 1000) AS DATE) AS day,
    client_id,
    count(*) AS requests,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY latency_ns) / 1e6 AS p50_ms,
    percentile_disc(0.99) WITHIN GROUP (ORDER BY latency_ns) / 1e6 AS p99_ms,
    max(latency_ns) / 1e6 AS max_ms
FROM requests
WHERE
    latency_ns IS NOT NULL
    AND waited IS NOT TRUE
GROUP BY day, client_id
ORDER BY day, p99_ms DESC, client_id
