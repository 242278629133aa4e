-- How far consumer groups are behind in each topic at the end, most records first.
--
-- The latest line of `lag` for each partition, summed up.
--
-- only if groups: count(*) >= 0
-- only if requests: bool_or(api_name = 'OffsetFetch' OR (group_id IS NOT NULL AND api_name <> 'FindCoordinator'))
WITH told AS (
    SELECT
        *,
        max(time_ns) OVER (PARTITION BY group_id, topic, "partition") AS last_ns
    FROM lag
)
SELECT
    group_id,
    topic,
    count(*) AS partitions,
    count(member_id) AS assigned,
    count(*) - count(lag) AS unknown,
    sum(lag) AS lag,
    max(lag) AS highest_lag,
    max(lag_ns) AS lag_ns,
    max(time_ns) AS last_time_ns
FROM told
WHERE time_ns = last_ns
GROUP BY group_id, topic
ORDER BY lag DESC NULLS LAST, group_id, topic
LIMIT $most_keys
