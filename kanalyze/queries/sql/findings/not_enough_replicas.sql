-- Writes refused because too few replicas are in sync.
--
-- severity: 90
-- sure: certain: the broker's response says so.
-- why: With acks=all nothing can be written to these partitions until replicas have caught up; producers retry until delivery.timeout.ms, then drop the records.
-- repair: Find the brokers that are down or behind (kafka-topics.sh --describe --under-min-isr-partitions) and bring them back. With min.insync.replicas below the number of replicas, one may fail.
-- caused by broker_away
-- caused by disk_failed
-- only if errors: bool_or(error_code IN (19, 20))
-- parameter least_requests = 1: minimum number of refused requests
SELECT *
FROM refusals
WHERE weight >= $least_requests AND error_code IN (
    19, -- NOT_ENOUGH_REPLICAS
    20  -- NOT_ENOUGH_REPLICAS_AFTER_APPEND
)
