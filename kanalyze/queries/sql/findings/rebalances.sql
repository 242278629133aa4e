-- Consumer groups that rebalance again and again, or for long.
--
-- severity: 60
-- sure: certain: every JoinGroup with an answer is one member's part in a round.
-- why: From the first JoinGroup of a round to the last SyncGroup no member consumes (with eager assignors).
-- repair: See what began each round: a member that was late (session.timeout.ms, max.poll.interval.ms), one that came or left, new partitions. Static membership (group.instance.id) and the cooperative assignor or group.protocol=consumer make rounds rarer and shorter.
-- parameter least_rounds = 3: rounds, at least
-- parameter longest_round_s = 10: or a single answer that took so many seconds
WITH joins AS (
    SELECT
        group_id,
        member_id,
        client_id,
        request_start_ns,
        request_packet,
        total_time_ns
    FROM requests
    WHERE api_name = 'JoinGroup' AND group_id IS NOT NULL AND status = 'ok'
),
rounds AS (
    SELECT
        group_id,
        max(joined) AS rounds
    FROM (
        SELECT
            group_id,
            member_id,
            count(*) AS joined
        FROM joins
        GROUP BY group_id, member_id
    ) AS of_members
    GROUP BY group_id
)
SELECT
    joins.group_id,
    concat(
        max(rounds.rounds), ' rounds at least, ', count(*), ' joins of ',
        count(DISTINCT joins.client_id), ' clients; the longest took ',
        round(max(joins.total_time_ns) / 1e9, 1), ' s'
    ) AS what,
    sum(joins.total_time_ns) / 1e9 AS weight,
    min(joins.request_start_ns) AS first_time_ns,
    max(joins.request_start_ns) AS last_time_ns,
    min(joins.request_packet) AS first_packet
FROM joins
JOIN rounds ON joins.group_id = rounds.group_id
GROUP BY joins.group_id
HAVING
    max(rounds.rounds) >= $least_rounds
    OR max(joins.total_time_ns) >= $longest_round_s * 1000000000
ORDER BY weight DESC, joins.group_id
