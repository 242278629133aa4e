-- Clients or brokers whose link is narrow: what they send takes long, and the longer the more it is.
--
-- Only messages of several packets show it: their sending takes from the first packet to the last. Those
-- of which packets were lost, or for which a receive window was closed, are left out, as are those that
-- waited for a delayed acknowledgment or, at most, for as many round trips as TCP needs for the size.
--
-- severity: 52
-- sure: likely: nearly all large messages of one sender take long to be sent, at about the same rate, where others send several times as fast; no packet was lost and no window closed meanwhile. A program that hands over its messages piece by piece looks the same.
-- why: Each message takes the time that its bytes need on the link, and those behind it wait; a broker or a batch size that is changed makes no difference.
-- repair: Look at the link of that machine and what shapes it: its speed (ethtool), a rate limit of its container, virtual machine or cloud instance (tc -s qdisc; burst credits), a VPN, a mobile or long-distance line. Compress (compression.type=zstd or lz4), and let something else use another link.
-- see: latency_parts
-- only if requests: count(*) FILTER (WHERE (request_bytes >= $least_bytes AND CAST(request_send_ns AS DOUBLE) * $most_kb_per_s >= request_bytes * 1e6) OR (response_bytes >= $least_bytes AND CAST(response_send_ns AS DOUBLE) * $most_kb_per_s >= response_bytes * 1e6)) >= $least_messages
-- parameter least_bytes = 3000: minimum bytes of a message
-- parameter most_kb_per_s = 1000: maximum rate in kB/s
-- parameter most_kb_per_s_alone = 100: the same, if no other sends such messages
-- parameter least_ratio = 5: minimum ratio of the median rate of others to that of the sender
-- parameter least_messages = 10: minimum number of slow messages
-- parameter least_seconds = 5: minimum number of different seconds in which they were sent
-- parameter least_share = 0.7: minimum share of the messages of that time
-- parameter most_spread = 5: maximum ratio of the rate that a quarter exceeds to that which three quarters exceed
WITH messages AS (
    SELECT
        'client' AS sender,
        client_ip AS sender_ip,
        0 AS sender_port,
        request_bytes AS bytes,
        request_send_ns AS sending_ns,
        *
    FROM requests
    WHERE request_bytes >= $least_bytes AND request_send_ns IS NOT NULL
    UNION ALL
    SELECT
        'broker' AS sender,
        broker_ip AS sender_ip,
        broker_port AS sender_port,
        response_bytes AS bytes,
        response_send_ns AS sending_ns,
        *
    FROM requests
    WHERE response_bytes >= $least_bytes AND response_send_ns IS NOT NULL
),
sent AS (
    SELECT
        request_id,
        sender,
        sender_ip,
        sender_port,
        client_id,
        client_ip,
        broker_ip,
        broker_port,
        bytes,
        sending_ns,
        CAST(sending_ns AS DOUBLE) / bytes AS ns_per_byte,
        CAST(sending_ns AS DOUBLE) * $most_kb_per_s >= bytes * 1e6
        -- How long a receiver delays an acknowledgment that the sender waits for.
        AND sending_ns NOT BETWEEN 39000000 AND 45000000
        AND sending_ns NOT BETWEEN 199000000 AND 205000000
        -- TCP begins with ten segments, and doubles that with each round trip.
        AND (
            bytes <= 14480
            OR sending_ns
            >= 2 * floor(ln(bytes / 14480.0) / ln(2) + 1)
            * (CAST(coalesce(broker_network_ns, 0) AS DOUBLE) + coalesce(client_network_ns, 0))
        ) AS is_slow,
        request_start_ns,
        request_packet
    FROM messages
    WHERE coalesce(zero_windows, 0) = 0 AND coalesce(retransmitted_packets, 0) = 0
),
of_senders AS (
    SELECT
        sender,
        sender_ip,
        sender_port,
        count(*) FILTER (WHERE is_slow) AS slow,
        count(*) AS messages,
        count(DISTINCT CASE WHEN is_slow THEN request_start_ns // 1000000000 END) AS seconds,
        count(DISTINCT concat(client_ip, ' ', broker_ip)) AS partners,
        min(CASE WHEN is_slow THEN request_start_ns END) AS first_time_ns,
        max(CASE WHEN is_slow THEN request_start_ns END) AS last_time_ns,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY ns_per_byte) AS ns_per_byte
    FROM sent
    GROUP BY sender, sender_ip, sender_port
),
compared AS (
    SELECT
        own.sender,
        own.sender_ip,
        own.sender_port,
        own.messages,
        own.partners,
        own.first_time_ns,
        own.last_time_ns,
        count(others.sender) AS others,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY others.ns_per_byte) AS others_ns_per_byte
    FROM of_senders AS own
    LEFT JOIN of_senders AS others
        ON (own.sender_ip <> others.sender_ip OR own.sender_port <> others.sender_port)
        AND others.messages >= $least_messages
    WHERE own.slow >= $least_messages AND own.seconds >= $least_seconds
    GROUP BY
        own.sender, own.sender_ip, own.sender_port, own.messages, own.partners, own.first_time_ns,
        own.last_time_ns
),
narrow AS (
    SELECT
        compared.sender,
        compared.sender_ip,
        compared.sender_port,
        compared.messages,
        compared.partners,
        compared.first_time_ns,
        compared.last_time_ns,
        compared.others,
        compared.others_ns_per_byte,
        count(*) AS meanwhile,
        count(*) FILTER (WHERE is_slow) AS slow,
        count(DISTINCT CASE WHEN is_slow THEN concat(client_ip, ' ', broker_ip) END) AS affected,
        count(DISTINCT CASE WHEN is_slow THEN client_id END) AS client_ids,
        min(CASE WHEN is_slow THEN client_id END) AS client_id,
        min(CASE WHEN is_slow THEN client_ip END) AS client_ip,
        min(CASE WHEN is_slow THEN broker_ip END) AS broker_ip,
        min(CASE WHEN is_slow THEN broker_port END) AS broker_port,
        array_to_string(
            list_sort(list(DISTINCT client_id) FILTER (WHERE is_slow AND client_id IS NOT NULL)), ', '
        ) AS names,
        -- rows: list(request_id) FILTER (WHERE is_slow) AS request_ids,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY CASE WHEN is_slow THEN bytes END) AS bytes,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY CASE WHEN is_slow THEN sending_ns END) AS sending_ns,
        percentile_disc(0.25) WITHIN GROUP (ORDER BY CASE WHEN is_slow THEN ns_per_byte END) AS quick,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY CASE WHEN is_slow THEN ns_per_byte END) AS usual,
        percentile_disc(0.75) WITHIN GROUP (ORDER BY CASE WHEN is_slow THEN ns_per_byte END) AS slowest,
        min(CASE WHEN is_slow THEN request_packet END) AS first_packet
    FROM compared
    JOIN sent
        ON compared.sender = sent.sender
        AND compared.sender_ip = sent.sender_ip
        AND compared.sender_port = sent.sender_port
    WHERE sent.request_start_ns BETWEEN compared.first_time_ns AND compared.last_time_ns
    GROUP BY
        compared.sender, compared.sender_ip, compared.sender_port, compared.messages,
        compared.partners, compared.first_time_ns, compared.last_time_ns, compared.others,
        compared.others_ns_per_byte
)
SELECT
    CASE WHEN client_ids = 1 AND (sender = 'client' OR affected = 1) THEN client_id END AS client_id,
    CASE WHEN sender = 'client' OR affected = 1 THEN client_ip END AS client_ip,
    -- One way of several is narrow, and not all that the machine sends.
    CASE WHEN sender = 'broker' OR affected < partners THEN broker_ip END AS broker_ip,
    CASE WHEN sender = 'broker' OR affected < partners THEN broker_port END AS broker_port,
    concat(
        slow, ' of ', meanwhile, CASE WHEN sender = 'client' THEN ' requests' ELSE ' responses' END,
        ' of ', CAST($least_bytes AS BIGINT), ' B or more took ', in_ms(sending_ns),
        ' ms to send at the median (', bytes, ' B): ', round(1e6 / usual), ' kB/s, half of them ',
        round(1e6 / slowest), ' to ', round(1e6 / quick), ' kB/s; ',
        CASE
            WHEN others = 0 THEN 'no other sends such messages'
            WHEN others_ns_per_byte = 0 THEN 'others send them at once'
            ELSE concat('others send ', round(1e6 / others_ns_per_byte), ' kB/s')
        END,
        CASE
            WHEN partners = 1 THEN ''
            ELSE concat(
                '; to ', affected, ' of ', partners,
                CASE WHEN sender = 'client' THEN ' brokers' ELSE ' clients' END
            )
        END,
        CASE
            WHEN messages > meanwhile
                THEN concat('; ', messages - meanwhile, ' before or afterwards were sent more quickly')
            ELSE ''
        END,
        CASE WHEN client_ids > 1 AND sender = 'client' THEN concat('; of ', names) ELSE '' END
    ) AS what,
    -- rows: request_ids,
    usual AS weight,
    first_time_ns,
    last_time_ns,
    first_packet
FROM narrow
WHERE
    slow >= $least_share * meanwhile
    AND slowest <= $most_spread * quick
    AND (
        (others > 0 AND usual >= $least_ratio * others_ns_per_byte)
        OR 1e6 / usual <= $most_kb_per_s_alone
    )
ORDER BY weight DESC, sender, sender_ip, sender_port
