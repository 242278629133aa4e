-- Which consumer groups lose the most time to rebalances?
--
-- In a rebalance every member sends JoinGroup, which the coordinator answers when all have joined or
-- the rebalance timeout is over, and then SyncGroup, which it answers when the leader has assigned
-- the partitions. During that time the member consumes nothing (with eager assignors), so the times
-- of both are summed over the members. Groups with the protocol of KIP-848
-- (ConsumerGroupHeartbeat) have no such pauses and are not listed. Members are counted by client,
-- because a member gets a new member id when it joins again.
SELECT
    group_id,
    count(*) FILTER (WHERE api_name = 'JoinGroup') AS joins,
    count(*) FILTER (WHERE api_name = 'SyncGroup') AS syncs,
    count(DISTINCT concat(client_ip, ' ', client_id)) FILTER (WHERE client_id IS NOT NULL) AS clients,
    count(*) FILTER (WHERE status = 'error') AS errors,
    count(*) FILTER (WHERE status = 'unanswered') AS unanswered,
    coalesce(sum(total_time_ns), 0) / 1e6 AS paused_ms,
    max(total_time_ns) FILTER (WHERE api_name = 'JoinGroup') / 1e6 AS longest_join_ms,
    max(total_time_ns) FILTER (WHERE api_name = 'SyncGroup') / 1e6 AS longest_sync_ms
FROM requests
WHERE
    api_name IN ('JoinGroup', 'SyncGroup')
    AND group_id IS NOT NULL
GROUP BY group_id
ORDER BY paused_ms DESC, group_id
