-- Consumers that read from another zone although a replica is in theirs.
--
-- Brokers are in racks, which are zones in a cloud. A consumer that says its own (client.rack) may read
-- from a follower there, if the leader tells it to (KIP-392).
--
-- severity: 24
-- sure: likely: the consumer says its rack, and responses say those of brokers; its partitions have as many replicas as there are racks, and Kafka divides replicas among racks. Where a leader named a replica, it is certain that there is one.
-- why: Nothing is wrong. But clouds charge for what crosses zones, and it takes longer.
-- repair: Where no leader named a replica: set replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector on all brokers; if it is set, see whether the replica in that zone is in sync, and whether replicas are divided among zones (kafka-topics.sh --describe). Where leaders named one and the consumer did not go there: see whether it reaches that broker at its advertised address, and whether the client follows them (Java clients from 2.4 on, librdkafka from 1.3 on).
-- tables: metadata
-- only if metadata: count(DISTINCT rack) FILTER (WHERE kind = 'broker') >= 2
-- only if requests: count(*) FILTER (WHERE api_name = 'Fetch' AND rack_id <> '' AND record_bytes > 0) > 0
-- parameter least_share = 10: minimum percentage of what the consumer reads
-- parameter least_mb_a_day = 10: minimum megabytes a day across zones
WITH total AS (
    SELECT
        client_id,
        rack_id,
        sum(record_bytes) AS all_bytes
    FROM rack_reads
    WHERE rack_id <> ''
    GROUP BY client_id, rack_id
),
across AS (
    SELECT
        client_id,
        rack_id,
        sum(record_bytes) AS bytes,
        -- rows: list(DISTINCT request_id) AS request_ids,
        list_sort(list(DISTINCT broker_rack)) AS racks,
        count(DISTINCT topic) AS topics,
        min(topic) AS topic,
        coalesce(sum(CASE WHEN is_told THEN record_bytes END), 0) AS told_bytes,
        min(request_start_ns) AS first_time_ns,
        max(request_start_ns) AS last_time_ns
    FROM rack_reads
    WHERE is_known_rack AND has_near_replica AND broker_rack <> rack_id
    GROUP BY client_id, rack_id
)
SELECT
    across.client_id,
    CASE WHEN topics = 1 THEN topic END AS topic,
    concat(
        gb_a_day(bytes, last_ns - first_ns), ' from ', array_to_string(racks, ', '),
        ' although a replica should be in ', across.rack_id, ', its own: ',
        CAST(round(100.0 * bytes / all_bytes) AS BIGINT), ' % of what it reads; ',
        CASE
            WHEN told_bytes = 0 THEN 'no leader had named a replica there'
            ELSE concat(
                'leaders had named a replica there before ',
                CAST(round(100.0 * told_bytes / bytes) AS BIGINT), ' % of that'
            )
        END
    ) AS what,
    -- rows: request_ids,
    bytes AS weight,
    first_time_ns,
    last_time_ns,
    'Fetch' AS api_name
FROM across
JOIN total
    ON across.client_id IS NOT DISTINCT FROM total.client_id AND across.rack_id = total.rack_id
CROSS JOIN time_extent
WHERE
    100.0 * bytes >= $least_share * all_bytes
    AND bytes * 86400e3 >= $least_mb_a_day * (last_ns - first_ns)
