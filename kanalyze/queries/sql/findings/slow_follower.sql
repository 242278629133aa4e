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
-- only if requests: count(*) FILTER (WHERE api_name = 'Fetch' AND record_bytes > 0 AND is_replica_client(client_id)) >= $least_fetches
-- parameter least_fetches = 20: minimum number of responses with records to the follower
-- parameter least_ms = 10: minimum median of the ms until its next Fetch
-- parameter least_ratio = 5: minimum ratio to the median of the other followers
-- parameter least_alone_ms = 50: minimum median in ms if there is no other follower
WITH fetches AS (
    SELECT
        request_id,
        client_id,
        client_ip,
        broker_ip,
        broker_port,
        record_bytes,
        request_start_ns,
        request_packet,
        lead(request_start_ns) OVER (
            PARTITION BY connection, connection_number ORDER BY request_start_ns
        ) - response_end_ns AS until_next_ns
    FROM requests
    WHERE api_name = 'Fetch' AND is_replica_client(client_id) AND client_id LIKE 'broker-%'
),
copied AS (
    SELECT
        *,
        regexp_extract(client_id, '^broker-([0-9]+)-', 1) AS follower
    FROM fetches
    WHERE record_bytes > 0 AND until_next_ns >= 0
),
of_followers AS (
    SELECT
        follower,
        client_ip,
        count(*) AS fetches,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY until_next_ns) AS median_ns
    FROM copied
    GROUP BY follower, client_ip
    HAVING count(*) >= $least_fetches
),
compared AS (
    SELECT
        own.follower,
        own.client_ip,
        own.fetches,
        own.median_ns,
        count(others.follower) AS others,
        min(others.median_ns) AS others_median_ns,
        CASE
            WHEN count(others.follower) = 0 THEN $least_alone_ms * 1000000
            ELSE greatest($least_ms * 1000000, $least_ratio * min(others.median_ns))
        END AS limit_ns
    FROM of_followers AS own
    LEFT JOIN of_followers AS others
        ON own.follower <> others.follower OR own.client_ip <> others.client_ip
    GROUP BY own.follower, own.client_ip, own.fetches, own.median_ns
),
slow AS (
    SELECT *
    FROM compared
    WHERE median_ns >= limit_ns
),
-- What waits for it: writes to the brokers that it copies from.
leaders AS (
    SELECT DISTINCT
        slow.follower,
        slow.client_ip,
        copied.broker_ip,
        copied.broker_port
    FROM slow
    JOIN copied ON slow.follower = copied.follower AND slow.client_ip = copied.client_ip
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
        ON leaders.broker_ip = requests.broker_ip AND leaders.broker_port = requests.broker_port
    WHERE requests.api_name = 'Produce' AND requests.latency_ns IS NOT NULL
    GROUP BY leaders.follower, leaders.client_ip
)
SELECT
    copied.client_ip,
    'Fetch' AS api_name,
    concat(
        count(*), ' of ', slow.fetches, ' times broker ', slow.follower, ' took more than ',
        in_ms(slow.limit_ns), ' ms from a response with records to its next Fetch, ',
        in_ms(slow.median_ns), ' ms at the median; ',
        CASE
            WHEN slow.others = 0 THEN 'there is no other follower to compare with'
            ELSE concat(number_text(slow.others, 'other follower'), ' at best ', in_ms(slow.others_median_ns), ' ms')
        END,
        CASE
            WHEN coalesce(writes.waiting, 0) = 0 THEN '; no write with acks=all in this capture waits for it'
            ELSE concat(
                '; writes with acks=all to the brokers that it copies from take ',
                in_ms(writes.waiting_ns), ' ms at the median',
                CASE
                    WHEN writes.others > 0 THEN concat(', with acks=1 ', in_ms(writes.others_ns), ' ms')
                    ELSE ''
                END
            )
        END
    ) AS what,
    -- rows: list(copied.request_id) AS request_ids,
    slow.median_ns / 1e6 AS weight,
    min(copied.request_start_ns) AS first_time_ns,
    max(copied.request_start_ns) AS last_time_ns,
    min(copied.request_packet) AS first_packet
FROM slow
JOIN copied
    ON slow.follower = copied.follower
    AND slow.client_ip = copied.client_ip
    AND slow.limit_ns <= copied.until_next_ns
LEFT JOIN writes ON slow.follower = writes.follower AND slow.client_ip = writes.client_ip
GROUP BY
    copied.client_ip, slow.follower, slow.fetches, slow.limit_ns, slow.median_ns, slow.others,
    slow.others_median_ns, writes.waiting, writes.others, writes.waiting_ns, writes.others_ns
ORDER BY weight DESC, copied.client_ip, slow.follower
