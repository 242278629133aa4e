-- Clients or brokers that send over a narrow link.
--
-- What they send takes long, and the longer the more it is. Only messages of several packets show it:
-- their sending takes from the first packet to the last. Those of which packets were lost, or for which a
-- receive window was closed, are left out, as are those that took no longer than the round trips that TCP
-- needs for the size. What shapes a link lets some kilobytes pass at once (the burst of a token bucket): so
-- messages smaller than the slow ones at the median may be quick, and the rate of those that are little larger
-- looks higher than the link's. A link that has few large messages to carry is not found, however slow it is.
--
-- severity: 52
-- sure: likely: nearly all large messages of one sender take long to be sent, at about the same rate, where others send several times as fast; no packet was lost and no window closed meanwhile. A program that hands over its messages piece by piece looks the same.
-- why: Each message takes the time that its bytes need on the link, and those behind it wait; a broker or a batch size that is changed makes no difference.
-- repair: Look at the link of that machine and what shapes it: its speed (ethtool), a rate limit of its container, virtual machine or cloud instance (tc -s qdisc; burst credits), a VPN, a mobile or long-distance line. Compress (compression.type=zstd or lz4), and let something else use another link.
-- see: latency_parts
-- only if requests: count(*) FILTER (WHERE (request_bytes >= $least_bytes AND CAST(request_send_ns AS DOUBLE) * $most_kb_per_s >= request_bytes * 1e6) OR (response_bytes >= $least_bytes AND CAST(response_send_ns AS DOUBLE) * $most_kb_per_s >= response_bytes * 1e6)) >= $least_messages
-- parameter least_bytes = 1000: minimum bytes of a message
-- parameter most_kb_per_s = 1000: maximum rate in kB/s
-- parameter most_kb_per_s_alone = 100: the same, if no other sends such messages
-- parameter least_ratio = 5: minimum ratio of the median rate of others to that of the sender
-- parameter least_messages = 10: minimum number of slow messages
-- parameter least_seconds = 5: minimum number of different seconds in which they were sent
-- parameter least_share = 0.7: minimum share of the messages of that time that have as many bytes as the slow ones at the median, to each other end
-- parameter most_as_delayed = 0.8: maximum share of those that took as long as a delayed acknowledgment
-- parameter most_spread = 5: maximum ratio of the rate that a quarter exceeds to that which three quarters exceed
WITH sent AS (
    SELECT
        request_id,
        sender,
        CASE WHEN sender = 'client' THEN client_ip ELSE broker_ip END AS sender_ip,
        client_id,
        client_ip,
        broker_ip,
        broker_port,
        CASE WHEN sender = 'client' THEN request_bytes ELSE response_bytes END AS bytes,
        CASE WHEN sender = 'client' THEN request_send_ns ELSE response_send_ns END AS sending_ns,
        CAST(sending_ns AS DOUBLE) / bytes AS ns_per_byte,
        -- How long a receiver delays an acknowledgment that the sender waits for.
        sending_ns BETWEEN 39000000 AND 45000000
        OR sending_ns BETWEEN 199000000 AND 205000000 AS is_as_delayed,
        CAST(sending_ns AS DOUBLE) * $most_kb_per_s >= bytes * 1e6
        -- TCP begins with ten segments, and doubles that with each round trip.
        AND (
            bytes <= 14480
            OR sending_ns
            >= 2 * floor(ln(bytes / 14480.0) / ln(2) + 1)
            * (CAST(coalesce(broker_network_ns, 0) AS DOUBLE) + coalesce(client_network_ns, 0))
        ) AS is_slow,
        request_start_ns
    FROM requests
    CROSS JOIN (VALUES ('client'), ('broker')) AS senders (sender)
    WHERE
        (request_bytes >= $least_bytes OR response_bytes >= $least_bytes)
        AND coalesce(zero_windows, 0) = 0
        AND coalesce(retransmitted_packets, 0) = 0
        AND bytes >= $least_bytes
        AND sending_ns IS NOT NULL
),
-- A way is from a sender to one other end.
bounded AS (
    SELECT
        *,
        bytes >= quantile_disc(CASE WHEN is_slow THEN bytes END, 0.5) OVER link AS is_large,
        request_start_ns BETWEEN
        min(CASE WHEN is_slow THEN request_start_ns END) OVER way
        AND max(CASE WHEN is_slow THEN request_start_ns END) OVER way AS is_meanwhile
    FROM sent
    WINDOW
        link AS (PARTITION BY sender, sender_ip),
        way AS (PARTITION BY sender, client_ip, broker_ip, broker_port)
),
judged AS (
    SELECT
        *,
        concat(client_ip, ' ', broker_ip) AS ends,
        count(CASE WHEN is_slow AND is_large THEN 1 END) OVER way
        >= $least_share * nullif(count(CASE WHEN is_meanwhile AND is_large THEN 1 END) OVER way, 0) AS is_narrow
    FROM bounded
    WINDOW way AS (PARTITION BY sender, client_ip, broker_ip, broker_port)
),
of_senders AS (
    SELECT
        sender,
        sender_ip,
        count(*) AS messages,
        count(DISTINCT ends) AS ways,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY ns_per_byte) AS ns_per_byte,
        count(DISTINCT CASE WHEN is_narrow THEN ends END) AS narrow_ways,
        count(*) FILTER (WHERE is_narrow AND is_meanwhile) AS meanwhile,
        count(*) FILTER (WHERE is_narrow AND NOT is_meanwhile) AS at_other_times
    FROM judged
    GROUP BY sender, sender_ip
),
of_all AS (
    SELECT
        count(*) AS senders,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY ns_per_byte) AS ns_per_byte
    FROM of_senders
    WHERE messages >= $least_messages
),
narrow AS (
    SELECT
        sender,
        sender_ip,
        count(*) AS slow,
        count(*) FILTER (WHERE is_as_delayed) AS as_delayed,
        count(DISTINCT request_start_ns // 1000000000) AS seconds,
        count(DISTINCT client_id) AS client_ids,
        min(client_id) AS client_id,
        min(client_ip) AS client_ip,
        min(broker_ip) AS broker_ip,
        min(broker_port) AS broker_port,
        array_to_string(list_sort(list(DISTINCT CAST(broker_port AS VARCHAR))), ', ') AS ports,
        names_text(client_id) AS names,
        -- rows: list(request_id) AS request_ids,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY bytes) AS bytes,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY sending_ns) AS sending_ns,
        percentile_disc(0.25) WITHIN GROUP (ORDER BY ns_per_byte) AS quick,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY ns_per_byte) AS usual,
        percentile_disc(0.75) WITHIN GROUP (ORDER BY ns_per_byte) AS slowest,
        min(request_start_ns) AS first_time_ns,
        max(request_start_ns) AS last_time_ns
    FROM judged
    WHERE is_narrow AND is_slow
    GROUP BY sender, sender_ip
)
SELECT
    CASE
        WHEN client_ids = 1 AND (sender = 'client' OR narrow_ways = 1) THEN client_id
    END AS client_id,
    CASE WHEN sender = 'client' OR narrow_ways < ways THEN client_ip END AS client_ip,
    -- One way of several is narrow, and not all that the machine sends.
    CASE WHEN sender = 'broker' OR narrow_ways < ways THEN broker_ip END AS broker_ip,
    CASE WHEN sender = 'broker' OR narrow_ways < ways THEN broker_port END AS broker_port,
    concat(
        slow, ' of ', meanwhile, CASE WHEN sender = 'client' THEN ' requests' ELSE ' responses' END,
        ' of ', CAST($least_bytes AS BIGINT), ' B or more took ', in_ms(sending_ns),
        ' ms to send at the median (', bytes, ' B): ', round(1e6 / usual), ' kB/s, half of them ',
        round(1e6 / slowest), ' to ', round(1e6 / quick), ' kB/s; ',
        CASE
            WHEN senders = 1 THEN 'no other sends such messages'
            WHEN of_all.ns_per_byte = 0 THEN 'others send them at once'
            ELSE concat('others send ', round(1e6 / of_all.ns_per_byte), ' kB/s')
        END,
        CASE
            WHEN ways > 1
                THEN concat(
                    '; to ', narrow_ways, ' of ', ways,
                    CASE WHEN sender = 'client' THEN ' brokers' ELSE ' clients' END
                )
        END,
        CASE
            WHEN at_other_times > 0
                THEN concat('; ', at_other_times, ' before or afterwards were sent more quickly')
        END,
        CASE
            WHEN client_ids > 1 AND sender = 'client' THEN concat('; of ', names)
            WHEN sender = 'broker' AND ports LIKE '%,%' THEN concat('; ports ', ports)
        END
    ) AS what,
    -- rows: request_ids,
    usual AS weight,
    first_time_ns,
    last_time_ns
FROM narrow
JOIN of_senders USING (sender, sender_ip)
CROSS JOIN of_all
WHERE
    slow >= $least_messages
    AND seconds >= $least_seconds
    -- What lets small messages pass at once is the link, which all ways share.
    AND (narrow_ways = ways OR slow >= $least_share * meanwhile)
    AND slowest <= $most_spread * quick
    AND as_delayed <= $most_as_delayed * slow
    AND (
        (senders > 1 AND usual >= $least_ratio * of_all.ns_per_byte)
        OR 1e6 / usual <= $most_kb_per_s_alone
    )
