-- Clients that a broker of Kafka 4 refuses.
--
-- severity: 70
-- sure: certain: the versions are those of the requests; Kafka 4.0 removed them (KIP-896).
-- why: Once the brokers run Kafka 4.0 or later, these requests are answered with UNSUPPORTED_VERSION or the connection is closed.
-- repair: Upgrade the client library: Java clients from 2.1 on, librdkafka from 1.8.2 on, and others of their age, send newer versions.
-- parameter least_requests = 1: requests of such a version, at least
WITH removed (api_key, first_version) AS (
    -- 32767, above all versions: there is none.
    VALUES
        (0, 3), -- Produce
        (1, 4), -- Fetch
        (2, 1), -- ListOffsets
        (4, 32767), -- LeaderAndIsr
        (5, 32767), -- StopReplica
        (6, 32767), -- UpdateMetadata
        (7, 32767), -- ControlledShutdown
        (8, 2), -- OffsetCommit
        (9, 1), -- OffsetFetch
        (19, 2), -- CreateTopics
        (20, 1), -- DeleteTopics
        (23, 2), -- OffsetForLeaderEpoch
        (27, 1), -- WriteTxnMarkers
        (29, 1), -- DescribeAcls
        (30, 1), -- CreateAcls
        (31, 1), -- DeleteAcls
        (32, 1), -- DescribeConfigs
        (34, 1), -- AlterReplicaLogDirs
        (35, 1), -- DescribeLogDirs
        (38, 1), -- CreateDelegationToken
        (39, 1), -- RenewDelegationToken
        (40, 1), -- ExpireDelegationToken
        (41, 1), -- DescribeDelegationToken
        (56, 2)  -- AlterPartition
),
old AS (
    SELECT
        client_id,
        concat(api_name, ' v', api_version) AS version,
        request_start_ns,
        request_packet
    FROM requests
    LEFT JOIN removed ON requests.api_key = removed.api_key
    WHERE wire = 'kafka-0.7' OR api_version < first_version
)
SELECT
    client_id,
    concat(
        count(*), ' requests of versions that Kafka 4.0 does not take: ',
        array_to_string(list_sort(list(DISTINCT version)), ', ')
    ) AS what,
    count(*) AS weight,
    min(request_start_ns) AS first_time_ns,
    max(request_start_ns) AS last_time_ns,
    min(request_packet) AS first_packet
FROM old
GROUP BY client_id
HAVING count(*) >= $least_requests
ORDER BY weight DESC, client_id NULLS LAST
