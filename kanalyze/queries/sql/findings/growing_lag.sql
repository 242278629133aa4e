-- Consumers that fall behind.
--
-- severity: 55
-- sure: likely: the high watermark against the end of what was fetched, early and late in the capture.
-- why: What is produced is consumed later and later, and is lost to the consumer once retention removes it.
-- repair: More members (up to one per partition), faster work for each record, larger fetches (fetch.min.bytes, max.partition.fetch.bytes).
-- parameter least_records = 1000: records by which the lag grew, at least
WITH fetched AS (
    SELECT
        client_id,
        topic,
        "partition",
        response_start_ns,
        request_start_ns,
        request_packet,
        high_watermark - (base_offset + record_count) AS lag
    FROM partitions
    WHERE
        api_name = 'Fetch'
        AND record_count > 0
        AND base_offset IS NOT NULL
        AND high_watermark >= base_offset + record_count
        AND response_start_ns IS NOT NULL
),
ends AS (
    SELECT
        client_id,
        topic,
        "partition",
        arg_min(lag, response_start_ns) AS first_lag,
        arg_max(lag, response_start_ns) AS last_lag,
        min(request_start_ns) AS first_time_ns,
        max(request_start_ns) AS last_time_ns,
        min(request_packet) AS first_packet
    FROM fetched
    GROUP BY client_id, topic, "partition"
)
SELECT
    client_id,
    topic,
    concat(
        count(*), ' partitions ', sum(last_lag - first_lag), ' records further behind, now ',
        sum(last_lag)
    ) AS what,
    sum(last_lag - first_lag) AS weight,
    min(first_time_ns) AS first_time_ns,
    max(last_time_ns) AS last_time_ns,
    min(first_packet) AS first_packet
FROM ends
WHERE last_lag > first_lag
GROUP BY client_id, topic
HAVING sum(last_lag - first_lag) >= $least_records
ORDER BY weight DESC, client_id NULLS LAST, topic NULLS LAST
