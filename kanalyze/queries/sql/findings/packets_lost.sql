-- Packets that the network loses on the way to one broker or one client.
--
-- Requests that were answered are counted, by whether they waited for a packet that TCP had to send
-- again: a broker that is gone, or a connection that ends so, is another fault. An end of the network is
-- blamed if requests of it suffer several times as often as those of the others.
--
-- severity: 48
-- sure: likely: payload was seen again in later packets, and the requests that it is of were answered only then. Where they were lost shows only in which clients and brokers suffer.
-- why: Each loss costs the request at least 200 ms, or a round trip, and TCP then sends more slowly; a connection behind it waits too.
-- repair: Look at the interfaces, cables and switches on that path (ethtool -S, ip -s link: errors, drops), at its MTU, at policers and shapers, and at the machine's receive buffers (netstat -s).
-- caused by broker_stood_still: broker
-- only if requests: count(*) FILTER (WHERE retransmitted_packets > 0 AND (retransmission_wait_ns > 0 OR greatest(request_send_ns, response_send_ns) >= $least_sending_ms * 1000000)) >= $least_requests
-- parameter least_requests = 8: minimum number of answered requests with retransmissions
-- parameter least_share = 0.003: minimum share of the answered requests
-- parameter least_ratio = 3: minimum ratio to the share of the others' requests
-- parameter least_sending_ms = 150: or minimum ms from the first packet of a message to the last, with a retransmission meanwhile
-- parameter least_seconds = 3: minimum number of different seconds in which this happens
WITH answered AS (
    SELECT
        request_id,
        client_ip,
        client_id,
        broker_ip,
        broker_port,
        connection,
        connection_number,
        -- TCP often sends a packet again that was only acknowledged late: nobody waits for that.
        retransmitted_packets > 0
        AND (
            retransmission_wait_ns > 0
            OR greatest(request_send_ns, response_send_ns) >= $least_sending_ms * 1000000
        ) AS is_resent,
        request_start_ns
    FROM requests
    WHERE
        request_start_ns IS NOT NULL
        AND response_start_ns IS NOT NULL
        AND retransmitted_packets IS NOT NULL
),
of_pairs AS (
    SELECT
        client_ip,
        broker_ip,
        broker_port,
        count(*) AS requests,
        count(*) FILTER (WHERE is_resent) AS resent
    FROM answered
    GROUP BY client_ip, broker_ip, broker_port
),
of_all AS (
    SELECT
        sum(requests) AS requests,
        sum(resent) AS resent
    FROM of_pairs
),
-- A broker, a client, or the way between the two.
ends AS (
    SELECT
        CASE grouping(client_ip, broker_ip) WHEN 2 THEN 'broker' WHEN 1 THEN 'client' ELSE 'way' END
            AS blamed,
        client_ip,
        broker_ip,
        broker_port,
        sum(requests) AS requests,
        sum(resent) AS resent,
        count(*) AS partners,
        count(*) FILTER (WHERE resent > 0) AS affected
    FROM of_pairs
    GROUP BY
        GROUPING SETS ((broker_ip, broker_port), (client_ip), (client_ip, broker_ip, broker_port))
),
suspects AS (
    SELECT
        ends.*,
        CASE
            WHEN of_all.requests = ends.requests THEN 0
            ELSE (of_all.resent - ends.resent) * 1.0 / (of_all.requests - ends.requests)
        END AS others_share,
        -- All that suffers is explained by the widest end of which most partners suffer.
        row_number() OVER (
            ORDER BY
                ends.resent DESC,
                ends.affected * 1.0 / ends.partners DESC,
                ends.partners DESC,
                ends.blamed DESC
        ) AS place
    FROM ends
    CROSS JOIN of_all
    WHERE
        ends.resent >= $least_requests
        AND ends.resent >= $least_share * ends.requests
        AND (ends.partners = 1 OR 2 * ends.affected >= ends.partners)
        AND ends.resent * (of_all.requests - ends.requests) * 1.0
        >= $least_ratio * (of_all.resent - ends.resent) * ends.requests
),
-- What a suspect before it explains is not blamed on another.
blamed AS (
    SELECT suspects.*
    FROM suspects
    LEFT JOIN suspects AS before
        ON suspects.place > before.place
        AND (
            before.client_ip IS NULL OR suspects.client_ip IS NULL
            OR before.client_ip = suspects.client_ip
        )
        AND (
            before.broker_ip IS NULL OR suspects.broker_ip IS NULL
            OR (before.broker_ip = suspects.broker_ip AND before.broker_port = suspects.broker_port)
        )
    WHERE before.place IS NULL
)
SELECT
    blamed.client_ip,
    blamed.broker_ip,
    blamed.broker_port,
    concat(
        count(*), ' of ', blamed.requests, ' answered requests waited for retransmissions (',
        round(1000.0 * count(*) / blamed.requests) / 10, ' %)',
        CASE blamed.blamed
            WHEN 'broker'
                THEN concat(
                    ', of ', blamed.affected, ' of ', blamed.partners, ' client address',
                    CASE WHEN blamed.partners = 1 THEN '' ELSE 'es' END
                )
            WHEN 'client' THEN concat(', to ', blamed.affected, ' of ', number_text(blamed.partners, 'broker'))
        END,
        '; of all other requests ', round(1000.0 * blamed.others_share) / 10, ' %'
    ) AS what,
    -- rows: list(answered.request_id) AS request_ids,
    count(*) AS weight,
    min(answered.request_start_ns) AS first_time_ns,
    max(answered.request_start_ns) AS last_time_ns
FROM blamed
JOIN answered
    ON (blamed.client_ip IS NULL OR blamed.client_ip = answered.client_ip)
    AND (
        blamed.broker_ip IS NULL
        OR (blamed.broker_ip = answered.broker_ip AND blamed.broker_port = answered.broker_port)
    )
WHERE answered.is_resent
GROUP BY
    blamed.blamed, blamed.client_ip, blamed.broker_ip, blamed.broker_port, blamed.requests,
    blamed.affected, blamed.partners, blamed.others_share
HAVING count(DISTINCT answered.request_start_ns // 1000000000) >= $least_seconds
