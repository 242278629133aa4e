-- Clients that go on asking a broker that does not lead the partition.
--
-- severity: 75
-- sure: certain: the broker answers NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH.
-- why: Nothing is produced to or fetched from the partition meanwhile.
-- repair: Compare with the leaders that Metadata tells: a broker with old metadata, a partition without a leader (kafka-topics.sh --describe --unavailable-partitions), or a client that does not refresh.
-- parameter least_span_s = 30: seconds over which this goes on, at least
SELECT
    topic,
    client_id,
    broker_ip,
    broker_port,
    concat(
        count(*), ' answers ', min(error_name), ' over ',
        round((max(response_start_ns) - min(response_start_ns)) / 1e9, 1), ' s, ',
        count(DISTINCT "partition"), ' partitions'
    ) AS what,
    count(*) AS weight,
    min(response_start_ns) AS first_time_ns,
    max(response_start_ns) AS last_time_ns,
    min(request_packet) AS first_packet
FROM errors
WHERE error_code IN (6, 74)
GROUP BY topic, client_id, broker_ip, broker_port
HAVING max(response_start_ns) - min(response_start_ns) >= $least_span_s * 1000000000
ORDER BY weight DESC, topic NULLS LAST, client_id NULLS LAST, broker_ip, broker_port
