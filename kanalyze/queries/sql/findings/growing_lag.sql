-- Consumers that fall behind.
--
-- severity: 55
-- sure: likely: the high watermark is compared with the end of the fetched records, early and late in the capture, and with the last commit.
-- why: Records are consumed later and later, and are lost to the consumer when retention removes them.
-- repair: Use more members (up to one per partition), process each record faster, or fetch more at once (fetch.min.bytes, max.partition.fetch.bytes).
-- see: lag partitions
-- only if requests: bool_or(api_name = 'Fetch' AND coalesce(record_count, 1) <> 0)
-- parameter least_records = 1000: minimum growth of the lag in records
WITH fetched AS (
    SELECT
        client_id,
        topic,
        "partition",
        -- rows: request_id,
        response_start_ns,
        request_start_ns,
        high_watermark,
        -- Offsets may have any value of 64 bits, which no sum may exceed.
        CASE
            WHEN record_count > 0 AND base_offset >= 0 AND high_watermark >= base_offset
                THEN high_watermark - base_offset - record_count
        END AS lag
    FROM partitions
    WHERE
        api_name = 'Fetch'
        AND response_start_ns IS NOT NULL
        -- Without records there is no lag; lists of such responses need not be read.
        AND coalesce(request_record_count, 1) <> 0
),
ends AS (
    SELECT
        client_id,
        topic,
        "partition",
        -- rows: list(request_id) AS request_ids,
        arg_min(lag, response_start_ns) AS first_lag,
        arg_max(lag, response_start_ns) AS last_lag,
        arg_max(high_watermark, response_start_ns) AS high_watermark,
        min(request_start_ns) AS first_time_ns,
        max(request_start_ns) AS last_time_ns
    FROM fetched
    WHERE lag >= 0
    GROUP BY client_id, topic, "partition"
),
commits AS (
    SELECT
        client_id,
        topic,
        "partition",
        min(group_id) AS group_id,
        max(base_offset) AS next_offset
    FROM partitions
    WHERE
        api_name IN ('OffsetCommit', 'TxnOffsetCommit') AND error_code = 0 AND base_offset >= 0
    GROUP BY client_id, topic, "partition"
)
SELECT
    ends.client_id,
    ends.topic,
    concat(
        number_text(sum(last_lag), 'record'), ' behind in ', number_text(count(*), 'partition'), ', ', sum(last_lag - first_lag),
        ' more than ', in_s(max(last_time_ns) - min(first_time_ns)), ' s before',
        CASE
            WHEN count(commits.next_offset) > 0
                THEN concat(
                    '; ', sum(greatest(ends.high_watermark - commits.next_offset, 0)),
                    ' behind what group ', min(commits.group_id), ' committed'
                )
        END
    ) AS what,
    -- rows: flatten(list(ends.request_ids)) AS request_ids,
    sum(last_lag - first_lag) AS weight,
    min(first_time_ns) AS first_time_ns,
    max(last_time_ns) AS last_time_ns
FROM ends
LEFT JOIN commits
    ON ends.client_id IS NOT DISTINCT FROM commits.client_id
    AND ends.topic IS NOT DISTINCT FROM commits.topic
    AND ends."partition" = commits."partition"
WHERE last_lag > first_lag
GROUP BY ends.client_id, ends.topic
HAVING sum(last_lag - first_lag) >= $least_records
