-- Members of groups whose heartbeats are late.
--
-- severity: 52
-- tables: groups
-- needs: all requests
-- sure: likely: the time between two requests of a member, as captured; the session timeout is the one in the member's JoinGroup.
-- why: A member that sends nothing for its session timeout is removed from the group: nobody consumes its partitions until the group has rebalanced, and then from the last commit again.
-- repair: Find out what stops the process in between: garbage collection, a container without CPU quota, swapping, a machine that sleeps. A longer session.timeout.ms only hides it.
-- only if requests: bool_or(member_id <> '')
-- parameter least_share = 0.334: minimum time between two requests, as a share of the session timeout
-- parameter least_ratio = 1.5: minimum ratio to what is usual between two requests of the member
-- parameter session_s = 45: session timeout in s, if the member's JoinGroup is not in the capture
WITH sessions AS (
    SELECT
        group_id,
        member_id,
        max(session_timeout_ms) AS session_ms
    FROM groups
    WHERE event = 'join' AND session_timeout_ms > 0 AND member_id IS NOT NULL
    GROUP BY group_id, member_id
),
signs AS (
    SELECT
        requests.group_id,
        requests.member_id,
        requests.client_id,
        -- rows: requests.request_id,
        requests.error_code,
        requests.request_start_ns,
        requests.request_packet,
        requests.request_start_ns - max(coalesce(requests.response_start_ns, requests.request_end_ns)) OVER (
            PARTITION BY requests.group_id, requests.member_id
            ORDER BY requests.request_start_ns, requests.request_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS gap_ns
    FROM requests
    JOIN connections USING (connection, connection_number)
    WHERE
        requests.api_name IN (
            'Heartbeat', 'JoinGroup', 'SyncGroup', 'OffsetCommit',
            'ConsumerGroupHeartbeat', 'ShareGroupHeartbeat', 'StreamsGroupHeartbeat'
        )
        AND requests.member_id <> ''
        AND connections.client_lost_bytes = 0
),
compared AS (
    SELECT
        signs.*,
        coalesce(sessions.session_ms, $session_s * 1000) AS session_ms,
        CASE
            WHEN count(signs.gap_ns) OVER of_member > 1
                THEN quantile_disc(signs.gap_ns, 0.5) OVER of_member
        END AS usual_ns
    FROM signs
    LEFT JOIN sessions USING (group_id, member_id)
    WINDOW of_member AS (PARTITION BY signs.group_id, signs.member_id)
),
late AS (
    SELECT *
    FROM compared
    WHERE
        gap_ns >= $least_share * session_ms * 1000000
        -- A member that is always as long silent has such a heartbeat.interval.ms.
        AND gap_ns >= $least_ratio * coalesce(usual_ns, 0)
)
SELECT
    group_id,
    client_id,
    concat(
        number_text(count(*), 'gap'), ' without requests, of up to ', in_s(max(gap_ns)),
        ' s, with a session timeout of ', round(min(session_ms) / 1000 * 10) / 10, ' s',
        CASE
            WHEN count(*) FILTER (WHERE error_code = 25) > 0
                THEN concat('; ', count(*) FILTER (WHERE error_code = 25), ' times it was no longer a member')
        END
    ) AS what,
    -- rows: list(request_id) AS request_ids,
    max(gap_ns / session_ms) AS weight,
    -- It was silent before the request that shows it.
    min(request_start_ns - gap_ns) AS first_time_ns,
    max(request_start_ns) AS last_time_ns,
    min(request_packet) AS first_packet
FROM late
GROUP BY group_id, client_id
