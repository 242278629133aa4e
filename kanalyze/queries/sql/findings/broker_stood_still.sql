-- A broker that stood still: it answered nobody for a while, then everybody at once.
--
-- severity: 95
-- sure: likely: requests that a broker answers by itself waited on connections that had worked, more came meanwhile, and it sent no response to anyone. A network that is cut for that time looks the same if packets are retransmitted.
-- why: Every client that has partitions or a group on it waits; those with short timeouts fail over, and members may lose their groups.
-- repair: Without retransmissions the machine's TCP went on, so the process stood still: a garbage collection (gc.log), a disk that hung under the log (iostat, kernel log), a stop by a debugger or a container's CPU limit (throttling). With retransmissions the machine or its network did: a virtual machine that was moved or suspended, a link.
-- see: over_time
-- only if requests: bool_or(is_answered_alone(api_name) AND latency_ns >= $least_s * 1000000000 + CAST(coalesce(max_wait_ms, 0) AS BIGINT) * 1000000)
-- parameter least_s = 1: minimum seconds without a response; a Fetch has to wait for so much longer than its max.wait
-- parameter least_alone_s = 3: the same, if only one connection waited
-- parameter most_late = 0.25: maximum share of late requests among those of 5 s before and after; with more, the broker is slow, and its pauses are part of that
-- parameter late_ms = 50: minimum ms of a late request without the network, for a Fetch beyond its max.wait
WITH late AS (
    SELECT DISTINCT
        broker_ip,
        broker_port
    FROM requests
    WHERE
        is_answered_alone(api_name)
        AND latency_ns
        >= $least_s * 1000000000 + CAST(coalesce(max_wait_ms, 0) AS BIGINT) * 1000000
),
silences AS (
    SELECT
        requests.broker_ip,
        requests.broker_port,
        requests.response_start_ns AS until_ns,
        lag(requests.response_start_ns) OVER (
            PARTITION BY requests.broker_ip, requests.broker_port
            ORDER BY requests.response_start_ns
        ) AS from_ns
    FROM requests
    JOIN late USING (broker_ip, broker_port)
    WHERE requests.response_start_ns IS NOT NULL
    QUALIFY until_ns - from_ns >= $least_s * 1000000000
),
begun AS (
    SELECT
        requests.connection,
        requests.connection_number,
        min(requests.response_start_ns) AS first_response_ns
    FROM requests
    JOIN late USING (broker_ip, broker_port)
    GROUP BY ALL
),
waiting AS (
    SELECT
        -- rows: requests.request_id,
        silences.broker_ip,
        silences.broker_port,
        silences.from_ns,
        silences.until_ns,
        requests.client_id,
        requests.client_ip,
        requests.request_start_ns,
        requests.response_start_ns,
        requests.retransmitted_packets,
        concat(requests.connection, ' ', requests.connection_number) AS connection_key,
        requests.request_start_ns >= silences.from_ns AS has_come_meanwhile,
        requests.response_start_ns - silences.until_ns <= 1000000000 AS is_at_once,
        -- How long such a request waited. One behind another on its connection waits for that.
        CASE
            WHEN
                is_answered_alone(requests.api_name)
                AND begun.first_response_ns <= silences.from_ns
                AND coalesce(requests.pipeline_wait_ns, 0) < 1000000000
                THEN
                    silences.until_ns - requests.request_end_ns
                    - CAST(greatest(coalesce(requests.max_wait_ms, 0), 0) AS BIGINT) * 1000000
        END AS late_ns
    FROM requests
    JOIN silences
        ON requests.broker_ip = silences.broker_ip
        AND requests.broker_port = silences.broker_port
        AND requests.request_end_ns < silences.until_ns
        AND requests.response_start_ns >= silences.until_ns
    JOIN begun USING (connection, connection_number)
),
paused AS (
    SELECT
        broker_ip,
        broker_port,
        from_ns,
        until_ns,
        -- rows: list(request_id) AS request_ids,
        count(*) AS requests,
        count(*) FILTER (WHERE is_at_once) AS at_once,
        count(DISTINCT connection_key) AS connections,
        sum(retransmitted_packets) AS retransmitted,
        min(request_start_ns) AS first_time_ns
    FROM waiting
    GROUP BY broker_ip, broker_port, from_ns, until_ns
    HAVING
        bool_or(has_come_meanwhile)
        AND (
            (count(DISTINCT connection_key) > 1 AND max(late_ns) >= $least_s * 1000000000)
            OR max(late_ns) >= $least_alone_s * 1000000000
        )
),
around AS (
    SELECT
        paused.broker_ip,
        paused.broker_port,
        paused.from_ns,
        avg(
            CAST(
                -- In a capture with odd times, sums of them may exceed 64 bits.
                CAST(requests.latency_ns AS DOUBLE)
                - coalesce(requests.broker_network_ns, 0)
                - coalesce(requests.retransmission_wait_ns, 0)
                - coalesce(requests.max_wait_ms, 0) * 1e6 >= $late_ms * 1000000
                AS INTEGER
            )
        ) AS late
    FROM paused
    JOIN requests
        ON paused.broker_ip = requests.broker_ip
        AND paused.broker_port = requests.broker_port
        AND (
            requests.response_start_ns BETWEEN paused.from_ns - 5000000000 AND paused.from_ns
            OR requests.request_start_ns BETWEEN paused.until_ns AND paused.until_ns + 5000000000
        )
    -- What waited for another pause says nothing of the time between the two.
    LEFT JOIN silences
        ON requests.broker_ip = silences.broker_ip
        AND requests.broker_port = silences.broker_port
        AND requests.request_end_ns < silences.until_ns
        AND requests.response_start_ns >= silences.until_ns
    WHERE is_answered_alone(requests.api_name) AND silences.until_ns IS NULL
    -- A slow broker answers fewer.
    GROUP BY paused.broker_ip, paused.broker_port, paused.from_ns, requests.response_start_ns <= paused.from_ns
),
stood AS (
    SELECT paused.*
    FROM paused
    LEFT JOIN around USING (broker_ip, broker_port, from_ns)
    GROUP BY ALL
    HAVING coalesce(avg(around.late), 0) <= $most_late
),
affected AS (
    SELECT
        waiting.broker_ip,
        waiting.broker_port,
        count(DISTINCT concat(client_ip, ' ', client_id)) AS clients,
        names_text(client_id) AS names
    FROM waiting
    JOIN stood USING (broker_ip, broker_port, from_ns)
    GROUP BY waiting.broker_ip, waiting.broker_port
),
everybody AS (
    SELECT
        requests.broker_ip,
        requests.broker_port,
        count(DISTINCT concat(requests.client_ip, ' ', requests.client_id)) AS clients
    FROM requests
    JOIN late USING (broker_ip, broker_port)
    WHERE requests.request_bytes IS NOT NULL
    GROUP BY requests.broker_ip, requests.broker_port
),
-- One broker may have several ports: the one on which most waited says it for all.
told AS (
    SELECT stood.*
    FROM stood
    LEFT JOIN stood AS others
        ON stood.broker_ip = others.broker_ip
        AND stood.from_ns < others.until_ns
        AND others.from_ns < stood.until_ns
        AND (
            stood.connections < others.connections
            OR (stood.connections = others.connections AND stood.broker_port > others.broker_port)
        )
    WHERE others.broker_ip IS NULL
),
together AS (
    SELECT
        stood.broker_ip,
        stood.broker_port,
        count(
            DISTINCT CASE
                WHEN stood.broker_ip <> others.broker_ip THEN concat(others.broker_ip, ' ', others.broker_port)
            END
        ) AS others,
        names_text(
            CASE WHEN stood.broker_ip = others.broker_ip THEN CAST(others.broker_port AS VARCHAR) END
        ) AS ports
    FROM stood
    JOIN stood AS others
        ON stood.from_ns < others.until_ns
        AND others.from_ns < stood.until_ns
        AND (stood.broker_ip <> others.broker_ip OR stood.broker_port <> others.broker_port)
    GROUP BY stood.broker_ip, stood.broker_port
)
SELECT
    told.broker_ip,
    told.broker_port,
    concat(
        'no response for ', in_s(max(until_ns - from_ns)), ' s',
        CASE WHEN count(*) > 1 THEN concat(', the longest of ', count(*), ' times') END,
        '; ', number_text(sum(requests), 'request'), ' on ', number_text(max(connections), 'connection'),
        ' of ', max(affected.clients), ' of its ', number_text(max(everybody.clients), 'client'),
        CASE WHEN max(affected.clients) <= 5 AND max(names) <> '' THEN concat(' (', max(names), ')') END,
        ' waited, ', sum(at_once), ' answered within 1 s then; ',
        number_text(coalesce(sum(retransmitted), 0), 'retransmission'), ' meanwhile',
        CASE
            WHEN max(together.ports) <> '' THEN concat('; port ', max(together.ports), ' of that address too')
        END,
        CASE
            WHEN max(together.others) > 0
                THEN concat(
                    '; ', number_text(max(together.others), 'other broker'), ' stood still at that time,',
                    ' as if all of them, or the capture, did'
                )
        END
    ) AS what,
    -- rows: flatten(list(told.request_ids)) AS request_ids,
    max(affected.clients) * sum(until_ns - from_ns) / 1e9 AS weight,
    min(first_time_ns) AS first_time_ns,
    max(until_ns) AS last_time_ns
FROM told
JOIN affected USING (broker_ip, broker_port)
JOIN everybody USING (broker_ip, broker_port)
LEFT JOIN together USING (broker_ip, broker_port)
GROUP BY told.broker_ip, told.broker_port
