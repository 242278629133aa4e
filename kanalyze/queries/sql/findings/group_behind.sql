-- Consumer groups whose commits fall behind the ends of the logs.
--
-- The end of a log is what any client shows of it: a high watermark in a response to anyone's Fetch, or
-- the end of what was produced. So a group that fetches little, or stopped to, is seen, too;
-- `growing_lag` has those whose own fetches show that they fall behind.
--
-- severity: 54
-- sure: likely: committed offsets are compared with the ends of the logs, at the first commit and at the end. A group that commits elsewhere (Flink, Spark, Connect's own stores) is not seen.
-- why: Records are consumed later and later, and are lost to the group when retention removes them.
-- repair: See whether the group's members still fetch, and what they do between fetches (max.poll.interval.ms, the time for each record, pauses); use more members (up to one per partition), or process faster. A partition whose offset stands still while others go on has a record that the consumer cannot get past.
-- see: lag
-- caused by broker_stood_still
-- caused by rebalances: group_id
-- caused by growing_lag: topic
-- only if requests: max(CASE WHEN api_name IN ('Produce', 'Fetch') AND coalesce(record_count, 1) <> 0 THEN response_start_ns END) - min(CASE WHEN api_name IN ('OffsetCommit', 'TxnOffsetCommit') THEN request_start_ns END) >= $least_s * 1000000000
-- parameter least_records = 1000: minimum growth of the lag in records
-- parameter least_s = 5: minimum seconds from the first commit to the last sign of the log's end
-- parameter least_share = 0.5: minimum growth of the lag, as a share of what was written meanwhile: less is a group that catches up or commits seldom
WITH of_partitions AS (
    SELECT
        group_id,
        topic,
        "partition",
        count(*) AS commits,
        min(client_id) AS client_id,
        arg_min(base_offset, request_start_ns) AS first_offset,
        max(base_offset) AS last_offset,
        -- rows: list(request_id) AS request_ids,
        min(request_start_ns) AS first_time_ns,
        max(request_start_ns) AS last_commit_ns
    FROM partitions
    WHERE
        api_name IN ('OffsetCommit', 'TxnOffsetCommit')
        AND error_code = 0
        AND base_offset >= 0
        AND group_id IS NOT NULL
        AND topic IS NOT NULL
    GROUP BY group_id, topic, "partition"
),
shown AS (
    SELECT
        topic,
        "partition",
        response_start_ns AS shown_ns,
        -- Offsets may have any value of 64 bits, which no sum may exceed.
        CASE
            WHEN api_name = 'Fetch' THEN high_watermark
            WHEN base_offset < 4611686018427387904 AND record_count < 4294967296 THEN base_offset + record_count
        END AS log_end
    FROM partitions
    WHERE
        (
            (api_name = 'Fetch' AND high_watermark >= 0)
            OR (api_name = 'Produce' AND base_offset >= 0 AND record_count > 0)
        )
        AND error_code = 0
        AND response_start_ns IS NOT NULL
        -- Lists of responses without records need not be read: others show the same log.
        AND coalesce(request_record_count, 1) <> 0
        AND topic IN (SELECT topic FROM of_partitions)
),
measured_lags AS (
    SELECT
        of_partitions.group_id,
        topic,
        "partition",
        arg_min(shown.log_end, abs(shown.shown_ns - of_partitions.first_time_ns)) AS first_end,
        max(shown.log_end) AS last_end,
        max(shown.shown_ns) AS last_time_ns
    FROM of_partitions
    JOIN shown USING (topic, "partition")
    GROUP BY of_partitions.group_id, of_partitions.topic, of_partitions."partition"
),
judged AS (
    SELECT
        of_partitions.*,
        last_end,
        last_end - first_end AS written,
        last_time_ns,
        greatest(last_end - last_offset, 0) AS last_lag,
        greatest(last_end - last_offset, 0) - greatest(first_end - first_offset, 0) AS growth
    FROM of_partitions
    JOIN measured_lags USING (group_id, topic, "partition")
    WHERE last_time_ns - of_partitions.first_time_ns >= $least_s * 1000000000
)
SELECT
    group_id,
    topic,
    CASE WHEN min(client_id) = max(client_id) THEN min(client_id) END AS client_id,
    concat(
        number_text(sum(last_lag), 'record'), ' behind in ', number_text(count(*), 'partition'), ', ',
        sum(growth), ' more than at the first commit, ',
        in_s(max(last_time_ns) - min(first_time_ns)), ' s before the end; meanwhile ', sum(written),
        ' written, and the group''s commits went on by ', sum(last_offset - first_offset),
        '; the last of ', number_text(sum(commits), 'commit'), ' ',
        in_s(greatest(max(last_time_ns) - max(last_commit_ns), 0)), ' s before the end'
    ) AS what,
    -- rows: list_distinct(flatten(list(request_ids))) AS request_ids,
    sum(growth) AS weight,
    min(first_time_ns) AS first_time_ns,
    max(last_time_ns) AS last_time_ns
FROM judged
WHERE growth > 0
GROUP BY group_id, topic
HAVING sum(growth) >= $least_records AND sum(growth) >= $least_share * sum(written)
