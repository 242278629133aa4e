-- Records that consumers read from brokers whose rack responses say.
--
-- kept: two findings read it.
--
-- A line for each partition in a response. A broker is at the address that it advertises or, if that is a
-- name, where writes to the partitions that it leads are answered. Node ids are those of a connection: there
-- may be several clusters. `is_told`: a leader had told the client before to fetch the partition from a
-- replica in its rack; `has_near_replica`: one did at any time, or the partition has as many replicas as
-- there are racks, and Kafka divides replicas among racks. `rack_id` is empty if the client says none.
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
-- Where several clusters have the node, it is not known which of them is meant: any is.
node_racks AS (
    SELECT DISTINCT
        node_id,
        rack
    FROM brokers
),
named AS (
    SELECT
        partitions.client_id,
        partitions.topic,
        partitions."partition",
        requests.rack_id,
        min(partitions.response_start_ns) AS told_ns
    FROM partitions
    JOIN requests ON partitions.request_id = requests.request_id
    JOIN node_racks
        ON partitions.preferred_read_replica = node_racks.node_id
        AND requests.rack_id = node_racks.rack
    WHERE partitions.api_name = 'Fetch'
    GROUP BY partitions.client_id, partitions.topic, partitions."partition", requests.rack_id
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
    coalesce(read.request_start_ns > named.told_ns, false) AS is_told,
    array_length(racks) > 1
    AND (named.told_ns IS NOT NULL OR replica_count >= array_length(racks)) AS has_near_replica
FROM partitions AS read
JOIN requests ON read.request_id = requests.request_id
JOIN broker_racks ON read.broker_ip = broker_racks.broker_ip AND read.broker_port = broker_racks.broker_port
JOIN spread ON read.topic = spread.topic AND read."partition" = spread."partition"
LEFT JOIN named
    ON read.client_id IS NOT DISTINCT FROM named.client_id
    AND requests.rack_id = named.rack_id
    AND read.topic = named.topic
    AND read."partition" = named."partition"
WHERE read.api_name = 'Fetch' AND read.record_bytes > 0 AND NOT is_replica_client(read.client_id)
