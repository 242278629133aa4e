-- Connections that are in the capture twice, under different addresses.
--
-- severity: 33
-- show: connections
-- sure: likely: the same requests, with the same ids and sizes, at almost the same time, between different addresses; and the same port of the client, or the same offsets of produced records, or each request of one connection within the time of the same request of the other.
-- why: Every request on them counts twice, and its client or its broker seems to be two: the capture was made on both sides of a NAT, a load balancer or a service proxy.
-- repair: Capture on one side: on one interface instead of all (-i any captures both sides on a host that forwards), or use --broker or --client-ip here to select one side.
-- only if connections: count(DISTINCT CASE WHEN requests > 0 THEN concat(requests, ' ', client_id, ' ', CAST(client_payload_bytes AS DOUBLE) - client_retransmitted_bytes - client_duplicate_bytes, ' ', CAST(broker_payload_bytes AS DOUBLE) - broker_retransmitted_bytes - broker_duplicate_bytes, ' ', client_ip, ' ', broker_ip, ' ', broker_port) END) > count(DISTINCT CASE WHEN requests > 0 THEN concat(requests, ' ', client_id, ' ', CAST(client_payload_bytes AS DOUBLE) - client_retransmitted_bytes - client_duplicate_bytes, ' ', CAST(broker_payload_bytes AS DOUBLE) - broker_retransmitted_bytes - broker_duplicate_bytes) END)
-- parameter least_requests = 5: number of requests from which on a connection may be as far apart as longest_apart_ms; with fewer, a tenth of that
-- parameter longest_apart_ms = 50: maximum ms between the two sides
WITH sides AS (
    SELECT
        connection,
        connection_number,
        client_ip,
        client_port,
        broker_ip,
        broker_port,
        coalesce(client_id, '') AS client_id,
        requests,
        start_ns,
        end_ns,
        CAST(client_payload_bytes AS DOUBLE) - client_retransmitted_bytes - client_duplicate_bytes
            AS client_bytes,
        CAST(broker_payload_bytes AS DOUBLE) - broker_retransmitted_bytes - broker_duplicate_bytes
            AS broker_bytes
    FROM connections
    WHERE requests > 0
),
-- Copies are compared with the next few that look the same, because a client may open thousands.
placed AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY requests, client_id, client_bytes, broker_bytes
            ORDER BY start_ns, connection, connection_number
        ) AS place
    FROM sides
),
paired AS (
    SELECT
        one.*,
        other.connection AS other_connection,
        other.connection_number AS other_number,
        other.client_ip AS other_client_ip,
        other.broker_ip AS other_broker_ip,
        other.broker_port AS other_broker_port,
        one.broker_ip = other.broker_ip AND one.broker_port = other.broker_port AS has_same_broker,
        -- A NAT changes the address of one end, and usually no port of the client.
        one.client_port = other.client_port
        AND (
            one.client_ip = other.client_ip
            OR (one.broker_ip = other.broker_ip AND one.broker_port = other.broker_port)
        ) AS has_same_port,
        $longest_apart_ms * 1000000 AS longest_apart_ns,
        CASE WHEN one.requests >= $least_requests THEN 1 ELSE 0.1 END * $longest_apart_ms * 1000000
            AS apart_ns
    FROM (
        -- Not a join with sixteen numbers: DuckDB would compare all that look the same first.
        SELECT *, unnest(range(place + 1, place + 17)) AS other_place FROM placed
    ) AS one
    JOIN placed AS other
        ON one.requests = other.requests
        AND one.client_id = other.client_id
        AND one.client_bytes = other.client_bytes
        AND one.broker_bytes = other.broker_bytes
        AND one.other_place = other.place
    WHERE
        (
            one.client_ip <> other.client_ip
            OR one.broker_ip <> other.broker_ip
            OR one.broker_port <> other.broker_port
        )
        AND other.start_ns - one.start_ns <= $longest_apart_ms * 1000000
        AND abs(other.end_ns - one.end_ns) <= $longest_apart_ms * 1000000
),
wanted AS (
    SELECT
        connection,
        connection_number
    FROM paired
    UNION
    SELECT
        other_connection AS connection,
        other_number AS connection_number
    FROM paired
),
numbered AS (
    SELECT
        requests.connection,
        requests.connection_number,
        api_key,
        api_version,
        correlation_id,
        client_id,
        request_start_ns,
        response_start_ns,
        request_bytes,
        response_bytes,
        error_code,
        member_id,
        transactional_id,
        list_concat(
            requests.partitions
            -- sessions: , inherited(requests.partitions, session_lists.partitions)
        ) AS partitions,
        api_name = 'Produce'
        AND array_length(list_filter(requests.partitions, lambda p: p.base_offset >= 0)) > 0 AS has_offset,
        row_number() OVER (
            PARTITION BY requests.connection, requests.connection_number
            ORDER BY request_start_ns, request_packet, correlation_id
        ) AS place
    FROM requests
    JOIN wanted USING (connection, connection_number)
    -- sessions: LEFT JOIN session_lists USING (session_list)
    WHERE request_start_ns IS NOT NULL
),
alike AS (
    SELECT
        paired.connection,
        paired.connection_number,
        paired.other_connection,
        paired.other_number,
        -- The offset of produced records is given once.
        bool_or(mine.has_offset) AS has_offset,
        max(abs(theirs.request_start_ns - mine.request_start_ns)) AS requests_apart_ns,
        max(abs(theirs.response_start_ns - mine.response_start_ns)) AS responses_apart_ns,
        bool_and(
            mine.request_start_ns <= theirs.request_start_ns
            AND theirs.response_start_ns <= mine.response_start_ns
        ) AS is_around,
        bool_and(
            theirs.request_start_ns <= mine.request_start_ns
            AND mine.response_start_ns <= theirs.response_start_ns
        ) AS is_within,
        count(mine.response_start_ns) AS responses
    FROM paired
    JOIN numbered AS mine USING (connection, connection_number)
    JOIN numbered AS theirs
        ON paired.other_connection = theirs.connection
        AND paired.other_number = theirs.connection_number
        AND mine.place = theirs.place
        AND mine.api_key IS NOT DISTINCT FROM theirs.api_key
        AND mine.api_version IS NOT DISTINCT FROM theirs.api_version
        AND mine.correlation_id IS NOT DISTINCT FROM theirs.correlation_id
        AND mine.client_id IS NOT DISTINCT FROM theirs.client_id
        AND mine.request_bytes IS NOT DISTINCT FROM theirs.request_bytes
        AND mine.response_bytes IS NOT DISTINCT FROM theirs.response_bytes
        AND mine.error_code IS NOT DISTINCT FROM theirs.error_code
        AND mine.member_id IS NOT DISTINCT FROM theirs.member_id
        AND mine.transactional_id IS NOT DISTINCT FROM theirs.transactional_id
        AND mine.partitions IS NOT DISTINCT FROM theirs.partitions
    GROUP BY ALL
    HAVING count(*) = max(paired.requests)
)
SELECT
    paired.broker_ip,
    paired.broker_port,
    concat(
        number_text(count(*), 'connection'), ' between ',
        paired.client_ip, ' and ', paired.broker_ip, ':', paired.broker_port,
        CASE WHEN count(*) = 1 THEN ' is the same as that between ' ELSE ' are the same as those between ' END,
        paired.other_client_ip, ' and ', paired.other_broker_ip, ':', paired.other_broker_port, ': ',
        sum(paired.requests), CASE WHEN sum(paired.requests) = 1 THEN ' request is' ELSE ' requests are' END,
        ' in the capture twice'
    ) AS what,
    -- rows: list_concat(list(concat(paired.connection, ' ', paired.connection_number)), list(concat(paired.other_connection, ' ', paired.other_number))) AS connection_keys,
    count(*) AS weight,
    min(paired.start_ns) AS first_time_ns,
    max(paired.end_ns) AS last_time_ns
FROM paired
JOIN alike USING (connection, connection_number, other_connection, other_number)
WHERE
    greatest(requests_apart_ns, coalesce(responses_apart_ns, 0)) <= apart_ns
    AND (
        has_same_port
        OR has_offset
        OR (
            has_same_broker
            AND responses >= $least_requests
            AND greatest(requests_apart_ns, responses_apart_ns) <= 0.1 * longest_apart_ns
            AND (is_around OR is_within)
            AND least(requests_apart_ns, responses_apart_ns) > 0
        )
    )
GROUP BY
    paired.client_ip, paired.broker_ip, paired.broker_port,
    paired.other_client_ip, paired.other_broker_ip, paired.other_broker_port
