-- Connections that are in the capture twice, under different addresses.
--
-- severity: 33
-- show: connections
-- sure: likely: the same requests, with the same records of the same partitions, at almost the same time, between different addresses.
-- why: Every request on them counts twice, and its client or its broker seems to be two: the capture was made on both sides of a NAT, a load balancer or a service proxy.
-- repair: Capture on one side: on one interface instead of all (-i any captures both sides on a host that forwards), or use --broker or --client-ip here to select one side.
-- parameter least_requests = 5: minimum number of requests on a connection
-- parameter longest_apart_ms = 50: maximum ms between the two sides
WITH sides AS (
    SELECT
        connection,
        connection_number,
        client_ip,
        broker_ip,
        broker_port,
        requests,
        start_ns,
        end_ns,
        first_packet,
        CAST(floor(start_ns / 1000000000) AS BIGINT) AS start_s,
        client_payload_bytes - client_retransmitted_bytes - client_duplicate_bytes AS client_bytes,
        broker_payload_bytes - broker_retransmitted_bytes - broker_duplicate_bytes AS broker_bytes
    FROM connections
    WHERE requests >= $least_requests
),
paired AS (
    SELECT
        one.*,
        other.connection AS other_connection,
        other.connection_number AS other_number,
        other.client_ip AS other_client_ip,
        other.broker_ip AS other_broker_ip,
        other.broker_port AS other_broker_port
    FROM sides AS one
    JOIN sides AS other
        ON one.requests = other.requests
        AND one.client_bytes = other.client_bytes
        AND one.broker_bytes = other.broker_bytes
        AND one.start_s = other.start_s
    WHERE
        (
            one.client_ip <> other.client_ip
            OR one.broker_ip <> other.broker_ip
            OR one.broker_port <> other.broker_port
        )
        AND (
            one.start_ns < other.start_ns
            OR (one.start_ns = other.start_ns AND one.connection < other.connection)
        )
        AND other.start_ns - one.start_ns <= $longest_apart_ms * 1000000
        AND abs(other.end_ns - one.end_ns) <= $longest_apart_ms * 1000000
),
-- The totals of connections are compared first, because comparing requests one by one takes long.
carried AS (
    SELECT
        requests.connection,
        requests.connection_number,
        count(*) AS comparable,
        sum(correlation_id) AS correlation_ids,
        sum(record_count) AS records,
        sum(record_bytes) AS record_bytes
    FROM requests
    JOIN (
        SELECT
            connection,
            connection_number
        FROM paired
        UNION
        SELECT
            other_connection AS connection,
            other_number AS connection_number
        FROM paired
    ) AS wanted
        ON requests.connection = wanted.connection
        AND requests.connection_number = wanted.connection_number
    WHERE correlation_id IS NOT NULL AND api_key IS NOT NULL AND request_start_ns IS NOT NULL
    GROUP BY requests.connection, requests.connection_number
    HAVING sum(record_count) > 0
),
pairs AS (
    SELECT paired.*
    FROM paired
    JOIN carried AS mine
        ON paired.connection = mine.connection
        AND paired.connection_number = mine.connection_number
    JOIN carried AS theirs
        ON paired.other_connection = theirs.connection
        AND paired.other_number = theirs.connection_number
        AND mine.comparable = theirs.comparable
        AND mine.correlation_ids = theirs.correlation_ids
        AND mine.records = theirs.records
        AND mine.record_bytes IS NOT DISTINCT FROM theirs.record_bytes
),
-- A client may do the same with several brokers, but a partition is led by one of them.
alike AS (
    SELECT
        pairs.connection,
        pairs.connection_number,
        pairs.other_connection,
        pairs.other_number,
        count(*) AS requests_alike,
        count(*) FILTER (WHERE mine.record_count > 0) AS with_records
    FROM pairs
    JOIN requests AS mine
        ON mine.connection = pairs.connection
        AND mine.connection_number = pairs.connection_number
    JOIN requests AS theirs
        ON theirs.connection = pairs.other_connection
        AND theirs.connection_number = pairs.other_number
        AND theirs.correlation_id = mine.correlation_id
        AND theirs.api_key = mine.api_key
        AND theirs.request_bytes IS NOT DISTINCT FROM mine.request_bytes
        AND theirs.response_bytes IS NOT DISTINCT FROM mine.response_bytes
        AND theirs.partitions IS NOT DISTINCT FROM mine.partitions
    WHERE abs(theirs.request_start_ns - mine.request_start_ns) <= $longest_apart_ms * 1000000
    GROUP BY
        pairs.connection, pairs.connection_number, pairs.other_connection, pairs.other_number
)
SELECT
    pairs.broker_ip,
    pairs.broker_port,
    concat(
        count(*), ' connections between ', pairs.client_ip, ' and ', pairs.broker_ip, ':',
        pairs.broker_port, ' are the same as those between ', pairs.other_client_ip, ' and ',
        pairs.other_broker_ip, ':', pairs.other_broker_port, ': ', sum(pairs.requests),
        ' requests are in the capture twice'
    ) AS what,
    count(*) AS weight,
    min(pairs.start_ns) AS first_time_ns,
    max(pairs.end_ns) AS last_time_ns,
    min(pairs.first_packet) AS first_packet
FROM pairs
JOIN alike
    ON pairs.connection = alike.connection
    AND pairs.connection_number = alike.connection_number
    AND pairs.other_connection = alike.other_connection
    AND pairs.other_number = alike.other_number
WHERE alike.requests_alike = pairs.requests AND alike.with_records > 0
GROUP BY
    pairs.client_ip, pairs.broker_ip, pairs.broker_port,
    pairs.other_client_ip, pairs.other_broker_ip, pairs.other_broker_port
ORDER BY weight DESC, pairs.broker_ip, pairs.broker_port, pairs.other_broker_ip, pairs.other_broker_port
