-- Consumer groups that rebalance often, or for a long time.
--
-- A round is a generation of the group, or an epoch in groups of the newer protocol (KIP-848).
-- Its cause is derived from the members of the round before, those that left, and those of the
-- round; reasons that clients send (KIP-800) are used if they say more. Workers of Kafka Connect begin
-- a round whenever a connector or a task is added, changed or removed: only those of their rounds count
-- in which members came or went.
--
-- severity: 60
-- sure: likely: the rounds are certain; their causes are derived from the members before and after, and those that left.
-- why: From the first JoinGroup of a round to the last SyncGroup no member consumes (with eager assignors); with the newer protocol, members wait whose partitions move.
-- repair: Members that join and leave: look for a deployment, a crash loop, an autoscaler; static membership (group.instance.id) lets them come back without a round. Members lost: a longer session.timeout.ms for pauses of the process, a longer max.poll.interval.ms or smaller max.poll.records for slow work. The cooperative assignor or group.protocol=consumer make rounds shorter.
-- see: over_time
-- caused by broker_stood_still
-- caused by late_heartbeats: group_id
-- caused by broker_away
-- caused by broker_restarted
-- tables: groups
-- needs: all requests
-- only if groups: EXISTS (SELECT 1 FROM groups AS rounds GROUP BY group_id HAVING count(DISTINCT coalesce(generation_id, member_epoch)) > $least_rounds OR max(CASE WHEN event = 'sync' THEN response_end_ns END) - min(CASE WHEN event = 'join' THEN request_start_ns END) >= $longest_round_s * 1000000000) AND count(*) > 0
-- parameter least_rounds = 3: minimum number of rounds after a group's first
-- parameter longest_round_s = 10: or minimum seconds of a round, from its first join to its last sync
WITH events AS (
    SELECT
        group_id,
        client_id,
        member_id,
        event,
        api_name IN ('JoinGroup', 'SyncGroup', 'LeaveGroup', 'Heartbeat') AS is_classic,
        coalesce(generation_id, CASE WHEN member_epoch > 0 THEN member_epoch END) AS round,
        array_to_string(list_sort(subscribed_topics), ',') AS topics,
        CASE
            WHEN
                reason NOT LIKE 'need to re-join with the given member-id%'
                AND reason NOT LIKE 'group is already rebalancing%'
                AND reason NOT LIKE 'the consumer is being closed%'
                THEN left(reason, 80)
        END AS reason,
        request_start_ns,
        request_packet,
        response_end_ns
    FROM groups
    WHERE
        group_id IS NOT NULL
        AND status = 'ok'
        AND event IN ('join', 'sync', 'leave', 'heartbeat')
),
joins AS (
    SELECT
        *,
        lag(topics) OVER (
            PARTITION BY group_id, member_id ORDER BY request_start_ns, request_packet
        ) AS topics_before
    FROM events
    WHERE event = 'join' AND round IS NOT NULL
),
of_members AS (
    SELECT
        *,
        min(CASE WHEN event = 'sync' THEN response_end_ns END) OVER (PARTITION BY group_id, round) AS formed_ns,
        min(CASE WHEN event = 'join' THEN request_start_ns END) OVER (
            PARTITION BY group_id, round, member_id
        ) AS joined_ns
    FROM events
    WHERE round IS NOT NULL AND (event <> 'heartbeat' OR NOT is_classic)
),
rounds AS (
    SELECT
        group_id,
        round,
        bool_or(is_classic) AS is_classic,
        min(request_start_ns) AS first_time_ns,
        max(response_end_ns) AS last_time_ns,
        -- A static member that comes back (group.instance.id) joins the round that there is.
        max(CASE WHEN event = 'sync' AND (joined_ns IS NULL OR joined_ns < formed_ns) THEN response_end_ns END)
        - min(CASE WHEN event = 'join' THEN request_start_ns END) AS took_ns,
        min(round) OVER (PARTITION BY group_id) AS first_round
    FROM of_members
    GROUP BY group_id, round
),
of_groups AS (
    SELECT
        group_id,
        min(first_round) AS first_round,
        count(*) - 1 AS again,
        bool_or(is_classic) AS is_classic,
        max(took_ns) AS longest_ns,
        min(first_time_ns) AS first_time_ns,
        max(last_time_ns) AS last_time_ns,
        -- The first round of a group is none that anybody has to explain.
        coalesce(
            min(CASE WHEN round > first_round THEN first_time_ns END), min(first_time_ns)
        ) AS began_ns
    FROM rounds
    GROUP BY group_id
    HAVING count(*) > $least_rounds OR max(took_ns) >= $longest_round_s * 1000000000
),
members AS (
    SELECT
        events.group_id,
        events.member_id,
        min(events.client_id) AS client_id,
        min(CASE WHEN events.event = 'join' THEN events.round END) AS first_round,
        max(CASE WHEN events.event = 'join' THEN events.round END) AS last_round,
        min(CASE WHEN events.event = 'join' THEN events.request_start_ns END) AS came_ns,
        max(CASE WHEN events.event = 'leave' THEN events.request_start_ns END) AS left_ns
    FROM events
    JOIN of_groups ON events.group_id = of_groups.group_id
    WHERE events.member_id IS NOT NULL
    GROUP BY events.group_id, events.member_id
),
changes AS (
    SELECT
        group_id,
        member_id,
        client_id,
        first_round AS round,
        came_ns AS at_ns,
        'joined' AS change
    FROM members
    UNION ALL
    SELECT
        group_id,
        member_id,
        client_id,
        CAST(last_round AS BIGINT) + 1 AS round,
        left_ns AS at_ns,
        CASE WHEN left_ns IS NULL THEN 'were lost without leaving' ELSE 'left' END AS change
    FROM members
    UNION ALL
    SELECT
        group_id,
        member_id,
        client_id,
        round,
        request_start_ns AS at_ns,
        'subscribed to other topics' AS change
    FROM joins
    WHERE topics <> topics_before
),
explained AS (
    -- The round that a change began; when the last member leaves, none begins. In the newer protocol
    -- the response has the previous epoch, or none: then it is the first epoch seen afterwards.
    SELECT
        changes.group_id,
        changes.change,
        changes.client_id,
        min(rounds.round) AS round
    FROM changes
    JOIN of_groups ON changes.group_id = of_groups.group_id
    JOIN rounds
        ON changes.group_id = rounds.group_id
        AND rounds.round > of_groups.first_round
        AND CASE
            WHEN of_groups.is_classic THEN rounds.round = changes.round
            ELSE rounds.first_time_ns >= changes.at_ns AND changes.at_ns > of_groups.first_time_ns
        END
    GROUP BY changes.group_id, changes.change, changes.client_id, changes.member_id, changes.at_ns
),
caused AS (
    SELECT
        group_id,
        concat(
            count(DISTINCT round), ' as members ', change, ' (', names_text(client_id), ')'
        ) AS cause
    FROM explained
    GROUP BY group_id, change
),
causes AS (
    SELECT
        group_id,
        array_to_string(list_sort(list(cause)), '; ') AS causes
    FROM caused
    GROUP BY group_id
),
known AS (
    SELECT
        of_groups.group_id,
        count(DISTINCT explained.round) AS explained,
        count(DISTINCT rounds.round) - count(DISTINCT explained.round) AS unexplained
    FROM of_groups
    JOIN rounds ON of_groups.group_id = rounds.group_id AND of_groups.first_round < rounds.round
    LEFT JOIN explained ON rounds.group_id = explained.group_id AND rounds.round = explained.round
    GROUP BY of_groups.group_id
),
of_connect AS (
    SELECT DISTINCT group_id
    FROM groups
    WHERE protocol_type = 'connect'
),
reasons AS (
    SELECT
        group_id,
        array_to_string(list_sort(list(DISTINCT reason)), '; ') AS reasons
    FROM events
    WHERE reason IS NOT NULL
    GROUP BY group_id
)
SELECT
    of_groups.group_id,
    concat(
        number_text(of_groups.again, 'round'), ' after the first in ',
        in_s(of_groups.last_time_ns - of_groups.first_time_ns), ' s',
        ': ' || causes.causes,
        CASE
            WHEN known.unexplained > 0
                THEN concat(
                    CASE WHEN causes.causes IS NULL THEN ': ' ELSE '; ' END,
                    known.unexplained,
                    CASE
                        WHEN of_connect.group_id IS NULL
                            THEN ' with the same members and topics, so new partitions, or a member that joined again'
                        ELSE ' with the same workers, so other connectors or tasks'
                    END
                )
        END,
        '; the longest took ' || in_s(of_groups.longest_ns) || ' s',
        '; clients say: ' || reasons.reasons
    ) AS what,
    -- rows: (SELECT list(DISTINCT request_id) FROM groups WHERE groups.group_id = of_groups.group_id AND event IN ('join', 'sync', 'leave') AND groups.request_start_ns BETWEEN of_groups.began_ns AND of_groups.last_time_ns) AS request_ids,
    of_groups.again AS weight,
    of_groups.began_ns AS first_time_ns,
    of_groups.last_time_ns
FROM of_groups
LEFT JOIN causes ON of_groups.group_id = causes.group_id
LEFT JOIN known ON of_groups.group_id = known.group_id
LEFT JOIN reasons ON of_groups.group_id = reasons.group_id
LEFT JOIN of_connect ON of_groups.group_id = of_connect.group_id
WHERE
    of_connect.group_id IS NULL
    OR known.explained >= $least_rounds
    OR of_groups.longest_ns >= $longest_round_s * 1000000000
