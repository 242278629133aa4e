-- How long does each client wait for the brokers, day by day?
--
-- latency_ns is the time from the last byte of a request to the first byte of its response, at the
-- capture point. Left out are requests without a response, and those that the broker held back on
-- purpose (`waited`: a Fetch that waits for data, a JoinGroup that waits for all members), because
-- their latency is not a measure of work. `waited` is null where it is not known, so the condition is
-- "is not true", not "is false".
--
-- The percentiles are exact. Days are UTC days.
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
