-- Records that consumers read from brokers whose rack responses say.
--
-- kept: two findings read it.
--
-- A line for each partition in a response. A broker is at the address that it advertises or, if that is a
-- name, where writes to the partitions that it leads are answered. Node ids are those of a connection: there
-- may be several clusters. `has_near_replica`: the partition has as many replicas as there are racks, and
-- Kafka divides replicas among racks. `rack_id` is empty if the client says none.
WITH brokers AS (
    SELECT
        connection,
        connection_number,
        node_id,
        host,
        port,
        rack
    FROM metadata
    WHERE kind = 'broker' AND rack IS NOT NULL
),
told AS (
    SELECT
        connection,
        connection_number,
        list_sort(list(DISTINCT rack)) AS racks
    FROM brokers
    GROUP BY connection, connection_number
),
listed AS (
    SELECT
        connection,
        connection_number,
        topic,
        "partition",
        leader_id,
        replica_count
    FROM metadata
    WHERE kind = 'partition' AND topic IS NOT NULL
),
led AS (
    SELECT DISTINCT
        topic,
        "partition",
        rack
    FROM listed
    JOIN brokers
        ON listed.connection = brokers.connection
        AND listed.connection_number = brokers.connection_number
        AND listed.leader_id = brokers.node_id
),
placed AS (
    SELECT
        host AS broker_ip,
        port AS broker_port,
        rack
    FROM brokers
    UNION
    SELECT
        broker_ip,
        broker_port,
        min(rack) AS rack
    FROM partitions
    JOIN led ON partitions.topic = led.topic AND partitions."partition" = led."partition"
    WHERE api_name = 'Produce' AND error_code = 0
    GROUP BY broker_ip, broker_port
    HAVING count(DISTINCT rack) = 1
),
broker_racks AS (
    SELECT
        broker_ip,
        broker_port,
        min(rack) AS rack
    FROM placed
    GROUP BY broker_ip, broker_port
    HAVING count(DISTINCT rack) = 1
),
spread AS (
    SELECT
        topic,
        "partition",
        max(racks) AS racks,
        max(replica_count) AS replica_count
    FROM listed
    JOIN told USING (connection, connection_number)
    GROUP BY topic, "partition"
)
SELECT
    read.request_id,
    read.client_id,
    read.topic,
    read.record_bytes,
    read.request_start_ns,
    coalesce(requests.rack_id, '') AS rack_id,
    broker_racks.rack AS broker_rack,
    array_contains(racks, requests.rack_id) AS is_known_rack,
    array_length(racks) > 1 AND replica_count >= array_length(racks) AS has_near_replica
FROM partitions AS read
JOIN requests ON read.request_id = requests.request_id
JOIN broker_racks ON read.broker_ip = broker_racks.broker_ip AND read.broker_port = broker_racks.broker_port
JOIN spread ON read.topic = spread.topic AND read."partition" = spread."partition"
WHERE read.api_name = 'Fetch' AND read.record_bytes > 0 AND NOT is_replica_client(read.client_id)
