-- How far consumer groups are behind, second by second.
--
-- A line for each second in which a response told another end of a partition's log, an offset of the
-- group, or who the partition is assigned to. What was told last holds until something else is told.
-- Commits are those in `partitions`, because `groups` of a report has none. A request for offsets of
-- several groups is in `groups` alone.
--
-- What several parts read is made once: otherwise DuckDB reads the lists of all requests for each.
WITH offsets AS MATERIALIZED (
    SELECT
        group_id,
        coalesce(topic, topic_id) AS topic,
        "partition",
        response_start_ns // 1000000000 AS second,
        max(response_start_ns) AS time_ns,
        -- -1: the group has no offset.
        arg_max(coalesce(committed_offset, -1), response_start_ns) AS committed
    FROM (
        SELECT
            group_id, topic, topic_id, "partition", response_start_ns, committed_offset, error_code
        FROM groups
        WHERE event = 'fetch_offsets'
        UNION ALL
        SELECT
            group_id, topic, topic_id, "partition", response_start_ns, base_offset, error_code
        FROM partitions
        WHERE api_name IN ('OffsetCommit', 'TxnOffsetCommit')
    ) AS each_told
    WHERE
        error_code = 0
        AND group_id IS NOT NULL
        AND coalesce(topic, topic_id) IS NOT NULL
        AND response_start_ns IS NOT NULL
        AND coalesce(committed_offset, 0) <= 4611686018427387904
    GROUP BY group_id, coalesce(topic, topic_id), "partition", response_start_ns // 1000000000
),
assignments AS (
    SELECT
        group_id,
        coalesce(assigned.a.topic, assigned.a.topic_id) AS topic,
        assigned.a."partition" AS "partition",
        second,
        max(time_ns) AS time_ns,
        arg_max(member_id, time_ns) AS member_id
    FROM (
        SELECT
            group_id,
            member_id,
            response_start_ns AS time_ns,
            response_start_ns // 1000000000 AS second,
            unnest(assigned) AS a
        FROM groups
        WHERE group_id IS NOT NULL AND member_id IS NOT NULL AND response_start_ns IS NOT NULL
    ) AS assigned
    GROUP BY
        group_id, coalesce(assigned.a.topic, assigned.a.topic_id), assigned.a."partition", second
),
each_end AS MATERIALIZED (
    SELECT * FROM log_ends
),
ends AS (
    SELECT
        topic,
        "partition",
        time_ns // 1000000000 AS second,
        max(time_ns) AS time_ns,
        max(log_end_offset) AS log_end_offset
    FROM each_end
    GROUP BY topic, "partition", time_ns // 1000000000
),
consumed AS (
    SELECT group_id, topic, "partition" FROM offsets
    UNION
    SELECT group_id, topic, "partition" FROM assignments
),
by_second AS (
    SELECT
        group_id,
        topic,
        "partition",
        second,
        max(time_ns) AS time_ns,
        max(committed) AS committed,
        max(member_id) AS member_id,
        max(log_end_offset) AS log_end_offset
    FROM (
        SELECT
            group_id, topic, "partition", second, time_ns, committed,
            CAST(NULL AS VARCHAR) AS member_id,
            CAST(NULL AS BIGINT) AS log_end_offset
        FROM offsets
        UNION ALL
        SELECT group_id, topic, "partition", second, time_ns, NULL, member_id, NULL
        FROM assignments
        UNION ALL
        SELECT
            consumed.group_id, ends.topic, ends."partition", second, time_ns, NULL, NULL,
            log_end_offset
        FROM ends
        INNER JOIN consumed
            ON ends.topic = consumed.topic AND ends."partition" = consumed."partition"
    ) AS each_told
    GROUP BY group_id, topic, "partition", second
),
known AS (
    SELECT
        group_id,
        topic,
        "partition",
        time_ns,
        last_value(committed IGNORE NULLS) OVER until_then AS committed,
        last_value(member_id IGNORE NULLS) OVER until_then AS member_id,
        max(log_end_offset) OVER until_then AS log_end_offset
    FROM by_second
    WINDOW until_then AS (
        PARTITION BY group_id, topic, "partition" ORDER BY second
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
),
-- When the log grew beyond each committed offset: the next record is that old.
points AS (
    SELECT topic, "partition", log_end_offset AS at_offset, time_ns, log_end_offset FROM each_end
    UNION ALL
    SELECT DISTINCT topic, "partition", committed, CAST(NULL AS BIGINT), CAST(NULL AS BIGINT)
    FROM offsets
),
passed AS (
    SELECT
        topic,
        "partition",
        at_offset AS committed,
        min(passed_ns) AS passed_ns
    FROM (
        SELECT
            topic,
            "partition",
            at_offset,
            time_ns,
            min(time_ns) OVER (
                PARTITION BY topic, "partition" ORDER BY at_offset
                RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
            ) AS passed_ns,
            min(log_end_offset) OVER (PARTITION BY topic, "partition") AS first_end
        FROM points
    ) AS beyond
    -- If the log was longer when the capture began, nobody knows since when.
    WHERE time_ns IS NULL AND first_end <= at_offset
    GROUP BY topic, "partition", at_offset
),
results AS (
    SELECT
        known.group_id,
        known.topic,
        known."partition",
        time_ns,
        nullif(known.committed, -1) AS committed_offset,
        known.committed = -1 AS has_no_offset,
        log_end_offset,
        CASE
            WHEN known.committed >= 0 AND log_end_offset >= known.committed
                THEN log_end_offset - known.committed
        END AS lag,
        passed_ns,
        CASE WHEN left_ns IS NULL OR left_ns > time_ns THEN known.member_id END AS member_id,
        CASE WHEN left_ns IS NULL OR left_ns > time_ns THEN group_members.client_id END AS client_id,
        CASE WHEN left_ns IS NULL OR left_ns > time_ns THEN group_members.client_ip END AS client_ip
    FROM known
    LEFT JOIN passed
        ON known.topic = passed.topic
        AND known."partition" = passed."partition"
        AND known.committed = passed.committed
    LEFT JOIN group_members
        ON known.group_id = group_members.group_id AND known.member_id = group_members.member_id
)
SELECT
    group_id,
    topic,
    "partition",
    time_ns,
    make_timestamp_ns(nullif(time_ns, 9223372036854775807)) AS time,
    committed_offset,
    log_end_offset,
    lag,
    CASE WHEN lag = 0 THEN 0 WHEN lag > 0 THEN time_ns - passed_ns END AS lag_ns,
    member_id,
    client_id,
    client_ip,
    CASE
        WHEN has_no_offset THEN 'none_committed'
        WHEN committed_offset IS NULL THEN 'no_offset_seen'
        WHEN log_end_offset IS NULL THEN 'no_log_end_seen'
        WHEN lag IS NULL THEN 'log_end_is_old'
        WHEN lag > 0 AND passed_ns IS NULL THEN 'produced_before_capture'
    END AS unknown
FROM results
