-- Requests by consumer group, and how long its members waited in rebalances.
--
-- In a rebalance each member sends JoinGroup, which the broker answers when all have joined, and
-- SyncGroup, which it answers when the leader has assigned the partitions. `rebalance_time_ns` is
-- the time of both, summed over the members. Groups of the newer protocol (KIP-848) send neither.
--
-- only if requests: count(group_id) > 0
WITH busiest AS (
    SELECT group_id
    FROM request_sums
    WHERE group_id IS NOT NULL
    GROUP BY group_id
    ORDER BY sum(CASE WHEN is_request THEN many ELSE 0 END) DESC, group_id
    LIMIT $most_keys
)
SELECT
    busiest.group_id,
    busiest.group_id IS NULL AS other,
    sum(CASE WHEN is_request THEN many ELSE 0 END) AS requests,
    sum(CASE WHEN is_request AND api_name = 'JoinGroup' THEN many ELSE 0 END) AS joins,
    sum(CASE WHEN is_request AND api_name = 'SyncGroup' THEN many ELSE 0 END) AS syncs,
    sum(total_time_ns) FILTER (WHERE api_name IN ('JoinGroup', 'SyncGroup')) AS rebalance_time_ns,
    max(longest_total_time_ns) FILTER (WHERE api_name = 'JoinGroup') AS longest_join_ns,
    max(longest_total_time_ns) FILTER (WHERE api_name = 'SyncGroup') AS longest_sync_ns,
    sum(CASE WHEN is_error THEN many ELSE 0 END) AS errors,
    sum(CASE WHEN is_unread THEN many ELSE 0 END) AS unread
FROM request_sums
LEFT JOIN busiest ON request_sums.group_id = busiest.group_id
WHERE request_sums.group_id IS NOT NULL
GROUP BY busiest.group_id, other
ORDER BY other, requests DESC, busiest.group_id
