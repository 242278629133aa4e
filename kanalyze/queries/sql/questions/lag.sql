-- How far are consumer groups behind at the end of the capture?
--
-- The latest line of `lag` for each partition of a group, as `kafka-consumer-groups.sh --describe` shows
-- it. `lag_s` is how long ago the log grew beyond the committed offset. `unknown` says why a number is
-- missing, `as_of` when something was last told of the partition.
SELECT
    group_id,
    topic,
    "partition",
    committed_offset,
    log_end_offset,
    lag,
    round(lag_ns / 1e8) / 10 AS lag_s,
    client_id,
    unknown,
    make_timestamp(time_ns // 1000) AS as_of
FROM (
    SELECT
        *,
        max(time_ns) OVER (PARTITION BY group_id, topic, "partition") AS last_ns
    FROM lag
) AS told
WHERE time_ns = last_ns
ORDER BY group_id, lag DESC NULLS LAST, topic, "partition"
