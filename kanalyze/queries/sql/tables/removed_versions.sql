-- The oldest version that Kafka 4.0 accepts, of each API with removed versions (KIP-896).
--
-- 32767 is above all versions: no version is accepted.
SELECT *
FROM (
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
) AS removed (api_key, first_version)
