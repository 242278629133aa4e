-- A follower that is slow to write what it has fetched.
--
-- A follower asks for more when it has written what it got. So the time from a response with records to
-- its next Fetch is that of its disk, and of its processor. Writes with acks=all wait for it.
--
-- severity: 66
-- sure: likely: other followers in the same capture ask again much sooner after responses with records; where there is no other, a stated limit is used.
-- why: A write with acks=all is answered when all replicas in sync have it, so every producer waits for the slowest; if it falls behind for replica.lag.time.max.ms, it leaves the replicas in sync.
-- repair: Look at that broker's machine: the disk of its log folders (iostat -x: await, util), memory for the page cache, processor (throttling of a container), garbage collection; and at its number of partitions and num.replica.fetchers.
-- caused by broker_stood_still
-- caused by narrow_link: machine
-- caused by packets_lost: machine
-- only if requests: count(*) FILTER (WHERE record_bytes > 0 AND api_name = 'Fetch' AND client_id LIKE 'broker-%') >= $least_fetches
-- parameter least_fetches = 20: minimum number of responses with records to the follower
-- parameter least_spans = 5: minimum number of spans of 2 s in which it is slow
-- parameter least_share = 0.7: minimum share of the spans from the first of these to the last
-- parameter least_ms = 10: minimum ms until its next Fetch, of a third of those of a span
-- parameter least_ratio = 20: minimum ratio to the same of the other followers
-- parameter least_alone_ms = 50: the same minimum if there is no other follower
-- parameter most_memory_ratio = 5: maximum ratio of the median time in which its broker answers from memory (Metadata, ApiVersions, Heartbeat and others) to that of other brokers, from `least_ms` on: with more, all of the broker is slow, which `slow_broker` and `broker_slowed` say
WITH copied AS (
    SELECT
        request_id,
        regexp_extract(client_id, '^broker-([0-9]+)-', 1) AS follower,
        client_ip,
        broker_ip,
        broker_port,
        request_start_ns,
        lead(request_start_ns) OVER (
            PARTITION BY connection, connection_number ORDER BY request_start_ns
        ) - response_end_ns AS until_next_ns
    FROM requests
    WHERE api_name = 'Fetch' AND is_replica_client(client_id) AND client_id LIKE 'broker-%'
    QUALIFY record_bytes > 0 AND until_next_ns >= 0
),
-- In spans of time: a follower that is slow fetches seldom, so most of its fetches may be of other times,
-- and all followers are slow at a time when the whole machine or cluster is.
of_spans AS (
    SELECT
        follower,
        client_ip,
        request_start_ns // 2000000000 AS span,
        count(*) AS fetches,
        -- Only one of its disks may be slow.
        quantile_disc(until_next_ns, 0.67) AS third_ns
    FROM copied
    GROUP BY ALL
),
followers AS (
    SELECT count(DISTINCT concat(follower, ' ', client_ip)) AS number
    FROM of_spans
),
compared AS (
    SELECT
        own.follower,
        own.client_ip,
        own.span,
        own.fetches,
        own.third_ns,
        min(others.third_ns) AS others_third_ns,
        CASE
            WHEN count(others.follower) = 0 THEN $least_alone_ms * 1000000
            ELSE greatest($least_ms * 1000000, $least_ratio * min(others.third_ns))
        END AS limit_ns
    FROM of_spans AS own
    CROSS JOIN followers
    LEFT JOIN of_spans AS others
        ON own.span = others.span
        AND (own.follower <> others.follower OR own.client_ip <> others.client_ip)
    GROUP BY own.follower, own.client_ip, own.span, own.fetches, own.third_ns, followers.number
    HAVING followers.number = 1 OR count(others.follower) > 0
),
slow_spans AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY follower, client_ip ORDER BY span) AS place
    FROM compared
    QUALIFY third_ns >= limit_ns
),
slow AS (
    SELECT
        follower,
        client_ip,
        sum(fetches) AS fetches,
        min(span) AS first_span,
        max(span) AS last_span,
        min(limit_ns) AS limit_ns,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY third_ns) AS third_ns,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY others_third_ns) AS others_third_ns
    FROM slow_spans
    GROUP BY follower, client_ip
    HAVING
        count(*) >= $least_spans
        AND sum(fetches) >= $least_fetches
        -- Where machines lack processors, now one is slow and now another.
        AND count(*) >= $least_share * (max(place) - min(place) + 1)
),
-- What is answered from memory does not wait for a disk.
from_memory AS (
    SELECT
        slow.follower,
        slow.client_ip,
        median(CASE WHEN requests.broker_ip = slow.client_ip THEN requests.latency_ns END) AS own_ns,
        median(CASE WHEN requests.broker_ip <> slow.client_ip THEN requests.latency_ns END) AS others_ns
    FROM slow
    JOIN requests
        ON requests.request_start_ns // 2000000000 BETWEEN slow.first_span AND slow.last_span
    WHERE is_unheld(requests.api_name) AND requests.api_name NOT IN ('Produce', 'OffsetCommit')
    GROUP BY slow.follower, slow.client_ip
    HAVING count(*) FILTER (WHERE requests.broker_ip = slow.client_ip AND requests.latency_ns IS NOT NULL) >= 3
),
-- What waits for it: writes meanwhile to the brokers that it copies from.
leaders AS (
    SELECT DISTINCT
        slow.follower,
        slow.client_ip,
        slow.first_span,
        slow.last_span,
        copied.broker_ip,
        -- Clients write to another port of a broker; brokers on one machine have the same address.
        CASE WHEN copied.client_ip = copied.broker_ip THEN copied.broker_port END AS broker_port
    FROM slow
    JOIN copied USING (follower, client_ip)
),
writes AS (
    SELECT
        leaders.follower,
        leaders.client_ip,
        count(*) FILTER (WHERE requests.acks = -1) AS waiting,
        count(*) FILTER (WHERE requests.acks = 1) AS others,
        percentile_disc(0.5) WITHIN GROUP (
            ORDER BY CASE WHEN requests.acks = -1 THEN requests.latency_ns END
        ) AS waiting_ns,
        percentile_disc(0.5) WITHIN GROUP (
            ORDER BY CASE WHEN requests.acks = 1 THEN requests.latency_ns END
        ) AS others_ns
    FROM leaders
    JOIN requests
        ON leaders.broker_ip = requests.broker_ip
        AND coalesce(leaders.broker_port, requests.broker_port) = requests.broker_port
        AND requests.request_start_ns // 2000000000 BETWEEN leaders.first_span AND leaders.last_span
    WHERE requests.api_name = 'Produce' AND requests.latency_ns IS NOT NULL
    GROUP BY leaders.follower, leaders.client_ip
)
SELECT
    copied.client_ip,
    'Fetch' AS api_name,
    concat(
        count(*), ' of ', slow.fetches, ' times broker ', slow.follower, ' took more than ',
        in_ms(slow.limit_ns), ' ms from a response with records to its next Fetch, ',
        in_ms(slow.third_ns), ' ms or more for a third of them; ',
        CASE
            WHEN slow.others_third_ns IS NULL THEN 'there is no other follower to compare with'
            ELSE concat('another follower ', in_ms(slow.others_third_ns), ' ms at that time')
        END,
        CASE
            WHEN coalesce(writes.waiting, 0) = 0 THEN '; no write with acks=all in this capture waited for it'
            ELSE concat(
                '; writes with acks=all to the brokers that it copies from took ',
                in_ms(writes.waiting_ns), ' ms at the median',
                CASE
                    WHEN writes.others > 0 THEN concat(', with acks=1 ', in_ms(writes.others_ns), ' ms')
                END
            )
        END
    ) AS what,
    -- rows: list(copied.request_id) AS request_ids,
    slow.third_ns / 1e6 AS weight,
    min(copied.request_start_ns) AS first_time_ns,
    max(copied.request_start_ns) AS last_time_ns
FROM slow
JOIN copied USING (follower, client_ip)
JOIN slow_spans
    ON copied.follower = slow_spans.follower
    AND copied.client_ip = slow_spans.client_ip
    AND copied.request_start_ns // 2000000000 = slow_spans.span
    AND copied.until_next_ns >= slow_spans.limit_ns
LEFT JOIN writes USING (follower, client_ip)
LEFT JOIN from_memory USING (follower, client_ip)
WHERE
    coalesce(own_ns < $least_ms * 1000000 OR own_ns <= $most_memory_ratio * from_memory.others_ns, true)
GROUP BY
    copied.client_ip, slow.follower, slow.fetches, slow.limit_ns, slow.third_ns,
    slow.others_third_ns, writes.waiting, writes.others, writes.waiting_ns, writes.others_ns
