-- Consumers that do not say in which zone they are.
--
-- Brokers are in racks, which are zones in a cloud. A consumer that says its own (client.rack) may read
-- from a follower there; this one reads from leaders, wherever they are.
--
-- severity: 21
-- sure: certain: responses say the racks of brokers, and its requests have none; whatever its zone is, it is not in all that it reads from.
-- why: Nothing is wrong. But clouds charge for what crosses zones, and it takes longer.
-- repair: Set client.rack of the consumer to its zone, and replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector on the brokers. Java clients from 2.4 on and librdkafka from 1.3 on send it.
-- tables: metadata
-- only if metadata: count(DISTINCT rack) FILTER (WHERE kind = 'broker') >= 2
-- only if requests: count(*) FILTER (WHERE api_name = 'Fetch' AND coalesce(rack_id, '') = '' AND record_bytes > 0) > 0
-- parameter least_mb_a_day = 10: minimum megabytes that the consumer reads a day
WITH by_rack AS (
    SELECT
        client_id,
        broker_rack,
        sum(record_bytes) AS bytes,
        -- rows: list(DISTINCT request_id) AS request_ids,
        min(request_start_ns) AS first_time_ns,
        max(request_start_ns) AS last_time_ns
    FROM rack_reads
    WHERE rack_id = '' AND has_near_replica
    GROUP BY client_id, broker_rack
),
lost AS (
    SELECT
        client_id,
        sum(bytes) AS bytes,
        max(bytes) AS most_bytes,
        list_sort(list(broker_rack)) AS racks,
        -- rows: flatten(list(request_ids)) AS request_ids,
        min(first_time_ns) AS first_time_ns,
        max(last_time_ns) AS last_time_ns
    FROM by_rack
    GROUP BY client_id
)
SELECT
    client_id,
    concat(
        gb_a_day(bytes, last_ns - first_ns), ' from ', array_to_string(racks, ', '), ' without a rack of its own',
        CASE
            WHEN most_bytes < bytes
                THEN concat(
                    ': at least ', CAST(round(100.0 * (bytes - most_bytes) / bytes) AS BIGINT), ' % crosses zones, wherever it is'
                )
            ELSE '; replicas are in other zones too'
        END
    ) AS what,
    -- rows: request_ids,
    bytes AS weight,
    first_time_ns,
    last_time_ns,
    'Fetch' AS api_name
FROM lost
CROSS JOIN time_extent
WHERE bytes * 86400e3 >= $least_mb_a_day * (last_ns - first_ns)
