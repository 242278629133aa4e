-- Requests that were never answered.
--
-- A broker answers the requests of a connection one after the other. So the first that waits is the
-- one to explain: those behind it are only counted, and its own time begins with the answer before.
--
-- severity: 80
-- sure: likely: no response was captured before the connection closed, and nothing of the connection is missing; what the broker did for others meanwhile says why.
-- why: The client waits for its request.timeout.ms, closes the connection, and tries again elsewhere.
-- repair: A broker that answers nobody: look at what it did at that time (a long garbage collection, a full request queue, a disk that hangs, a crash, out of memory). One that answers others: a write with acks=all, or a commit, waits for replicas (kafka-topics.sh --describe --under-min-isr-partitions); any other request met a fault of its own, which the broker's log has. Skipped requests: look for a proxy in between, or for an error in the broker's log at that time.
-- see: over_time
-- caused by broker_stood_still: machine
-- caused by broker_slowed: machine
-- caused by broker_stood_still if api_name = Produce
-- caused by broker_stood_still if api_name = OffsetCommit
-- tables: metadata
-- only if requests: bool_or(api_name NOT IN ('JoinGroup', 'SyncGroup') AND (status = 'unanswered' OR response_start_ns - request_end_ns >= $least_wait_s * 1000000000 + CAST(coalesce(max_wait_ms, 0) AS BIGINT) * 1000000))
-- only if connections: bool_or(closed_by IS NOT NULL)
-- only if without_answer: bool_or(api_name NOT IN ('JoinGroup', 'SyncGroup') AND NOT is_unannounced AND coalesce(client_retransmitted_packets, 0) <= $most_retransmissions AND closed_ns - request_end_ns >= $least_wait_s * 1000000000 + CAST(coalesce(max_wait_ms, 0) AS BIGINT) * 1000000)
-- parameter least_wait_s = 1: minimum seconds that the client waited; for a Fetch, in addition to its max.wait
-- parameter most_retransmissions = 2: maximum number of packets that the client retransmitted; with more it is `sent_into_nothing`
WITH closed AS (
    SELECT DISTINCT
        connection,
        connection_number,
        closed_ns
    FROM without_answer
    WHERE closed_ns IS NOT NULL
),
spoken AS (
    SELECT
        requests.request_id,
        requests.connection,
        requests.connection_number,
        requests.request_start_ns,
        CASE WHEN requests.response_start_ns <= closed.closed_ns THEN requests.response_start_ns END AS answered_ns
    FROM requests
    JOIN closed USING (connection, connection_number)
    WHERE requests.request_start_ns IS NOT NULL AND requests.status <> 'one_way'
),
followed AS (
    SELECT
        *,
        max(answered_ns) OVER before AS answered_before_ns,
        count(answered_ns) OVER afterwards AS answered_later,
        count(*) OVER afterwards AS later
    FROM spoken
    WINDOW
        before AS (
            PARTITION BY connection, connection_number
            ORDER BY request_start_ns, request_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ),
        afterwards AS (
            PARTITION BY connection, connection_number
            ORDER BY request_start_ns, request_id
            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        )
),
queued AS (
    SELECT
        request_id,
        answered_before_ns,
        answered_later,
        count(*) FILTER (WHERE answered_ns IS NULL AND answered_later = 0) OVER (
            PARTITION BY connection, connection_number
            ORDER BY request_start_ns, request_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS ahead,
        later - answered_later AS behind
    FROM followed
),
waiting AS (
    SELECT
        without_answer.*,
        queued.answered_later,
        CASE WHEN queued.answered_later = 0 THEN queued.behind ELSE 0 END AS behind,
        without_answer.request_end_ns
        + greatest(queued.answered_before_ns - without_answer.request_end_ns, 0) AS from_ns
    FROM without_answer
    JOIN queued ON without_answer.request_id = queued.request_id
    WHERE
        queued.ahead = 0
        -- A member of a group waits for the other members.
        AND without_answer.api_name NOT IN ('JoinGroup', 'SyncGroup')
        -- The finding about versions says more.
        AND NOT without_answer.is_unannounced
        AND coalesce(without_answer.client_retransmitted_packets, 0) <= $most_retransmissions
),
long_waiting AS (
    SELECT
        *,
        closed_ns - from_ns AS waited_ns,
        -- The broker may have stopped only after it got the request.
        from_ns + (closed_ns - from_ns) // 2 AS middle_ns
    FROM waiting
    WHERE
        closed_ns - from_ns
        >= $least_wait_s * 1000000000 + CAST(coalesce(max_wait_ms, 0) AS BIGINT) * 1000000
),
-- In tenths of a second: a wait would else be compared with every request of the broker.
broker_moments AS (
    SELECT
        requests.broker_ip,
        requests.broker_port,
        coalesce(requests.response_start_ns, requests.request_start_ns) // 100000000 AS tenth,
        count(requests.response_start_ns) AS answered,
        count(*) AS asked
    FROM requests
    JOIN (SELECT DISTINCT broker_ip, broker_port FROM long_waiting) AS blamed
        USING (broker_ip, broker_port)
    GROUP BY ALL
),
meanwhile AS (
    SELECT
        long_waiting.request_id,
        sum(broker_moments.answered) AS answered,
        sum(broker_moments.asked) AS asked
    FROM long_waiting
    JOIN broker_moments
        ON long_waiting.broker_ip = broker_moments.broker_ip
        AND long_waiting.broker_port = broker_moments.broker_port
        AND broker_moments.tenth > long_waiting.middle_ns // 100000000
        AND broker_moments.tenth < long_waiting.closed_ns // 100000000
    WHERE long_waiting.answered_later = 0
    GROUP BY long_waiting.request_id
),
judged AS (
    SELECT
        long_waiting.*,
        coalesce(meanwhile.answered, 0) AS answered_others,
        coalesce(meanwhile.asked, 0) AS asked_others,
        CASE
            WHEN long_waiting.answered_later > 0 THEN 'skipped'
            WHEN coalesce(meanwhile.answered, 0) > 0 THEN 'waits alone'
            ELSE 'nobody'
        END AS cause
    FROM long_waiting
    LEFT JOIN meanwhile ON long_waiting.request_id = meanwhile.request_id
)
SELECT
    -- Of as many requests, a broker that answers nobody comes first, then what began first.
    cause,
    min(request_start_ns) AS first_time_ns,
    client_id,
    api_name,
    broker_ip,
    broker_port,
    concat(
        count(*), ' without an answer within ',
        CASE
            WHEN in_s(min(waited_ns)) < in_s(max(waited_ns))
                THEN concat(in_s(min(waited_ns)), ' to ')
        END,
        in_s(max(waited_ns)), ' s',
        CASE
            WHEN cause = 'skipped'
                THEN concat(
                    ': skipped, though ', number_text(max(answered_later), 'later request'),
                    ' on the connection ', CASE WHEN max(answered_later) = 1 THEN 'was' ELSE 'were' END,
                    ' answered'
                )
        END,
        CASE
            WHEN sum(behind) > 0
                THEN concat(', and ', number_text(sum(behind), 'request'), ' behind')
        END,
        '; then ',
        CASE
            WHEN count(*) FILTER (WHERE closed_by = 'broker') = 0 THEN 'the client closed the connection'
            WHEN count(*) FILTER (WHERE closed_by = 'client') = 0 THEN 'the broker closed the connection'
            ELSE concat(
                'the client closed ',
                count(DISTINCT concat(connection, ' ', connection_number))
                FILTER (WHERE closed_by = 'client'),
                ' of the connections, the broker the others'
            )
        END,
        CASE
            WHEN count(response_start_ns) > 0
                THEN concat(', and ', number_text(count(response_start_ns), 'answer'), ' came too late')
        END,
        CASE
            WHEN cause = 'waits alone'
                THEN concat(
                    '; meanwhile the broker answered ', number_text(min(answered_others), 'other request'),
                    ', so its process runs',
                    CASE
                        WHEN bool_or(api_name = 'Produce' AND acks = -1)
                            THEN ': a write with acks=all waits for replicas'
                        WHEN bool_or(api_name IN ('OffsetCommit', 'TxnOffsetCommit'))
                            THEN ': a commit waits for replicas'
                    END
                )
            WHEN cause = 'nobody'
                THEN concat(
                    CASE
                        WHEN min(asked_others) > 0
                            THEN concat(
                                '; meanwhile the broker answered none of ',
                                number_text(min(asked_others), 'other request')
                            )
                        ELSE '; nobody else asked the broker meanwhile'
                    END,
                    CASE
                        WHEN max(client_retransmitted_packets) = 0
                            THEN '; its TCP acknowledged them: its process hangs, not its machine or the network'
                    END
                )
        END
    ) AS what,
    -- rows: list(request_id) AS request_ids,
    count(*) AS weight,
    max(closed_ns) AS last_time_ns
FROM judged
GROUP BY client_id, api_name, broker_ip, broker_port, cause
