-- Requests by consumer group, and how long its members waited in rebalances.
--
-- In a rebalance each member sends JoinGroup, which the broker answers when all have joined, and
-- SyncGroup, which it answers when the leader has assigned the partitions. `rebalance_time_ns` is
-- the time of both, summed over the members. Groups of the newer protocol (KIP-848) send neither.
WITH busiest AS (
    SELECT group_id
    FROM measured
    WHERE group_id IS NOT NULL
    GROUP BY group_id
    ORDER BY count(*) FILTER (WHERE is_request) DESC, group_id
    LIMIT $most_keys
)
SELECT
    busiest.group_id,
    busiest.group_id IS NULL AS other,
    count(*) FILTER (WHERE is_request) AS requests,
    count(*) FILTER (WHERE is_request AND api_name = 'JoinGroup') AS joins,
    count(*) FILTER (WHERE is_request AND api_name = 'SyncGroup') AS syncs,
    sum(total_time_ns) FILTER (WHERE api_name IN ('JoinGroup', 'SyncGroup')) AS rebalance_time_ns,
    max(total_time_ns) FILTER (WHERE api_name = 'JoinGroup') AS longest_join_ns,
    max(total_time_ns) FILTER (WHERE api_name = 'SyncGroup') AS longest_sync_ns,
    count(*) FILTER (WHERE is_error) AS errors,
    count(*) FILTER (WHERE is_unread) AS unread
FROM measured
LEFT JOIN busiest ON measured.group_id = busiest.group_id
WHERE measured.group_id IS NOT NULL
GROUP BY busiest.group_id, other
ORDER BY other, requests DESC, busiest.group_id
