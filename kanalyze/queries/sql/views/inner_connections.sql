-- Connections between brokers, and between brokers and controllers.
--
-- Some requests are only sent there; the other requests of such a connection belong to them. What it is
-- for has the names of `traffic` in `flows`.
SELECT
    connection,
    connection_number,
    -- A connection to a controller may have requests of both kinds.
    min(traffic) AS traffic
FROM (
    SELECT
        connection,
        connection_number,
        CASE
            WHEN
                api_key IN (
                    4,  -- LeaderAndIsr
                    5,  -- StopReplica
                    6,  -- UpdateMetadata
                    7,  -- ControlledShutdown
                    52, -- Vote
                    53, -- BeginQuorumEpoch
                    54, -- EndQuorumEpoch
                    56, -- AlterPartition
                    58, -- Envelope
                    59, -- FetchSnapshot
                    62, -- BrokerRegistration
                    63, -- BrokerHeartbeat
                    67, -- AllocateProducerIds
                    70, -- ControllerRegistration
                    73  -- AssignReplicasToDirs
                )
                OR regexp_matches(client_id, '^raft-client-[0-9]+$')
                THEN 'controller'
            WHEN
                api_key IN (
                    27, -- WriteTxnMarkers
                    83, -- InitializeShareGroupState
                    84, -- ReadShareGroupState
                    85, -- WriteShareGroupState
                    86, -- DeleteShareGroupState
                    87  -- ReadShareGroupStateSummary
                )
                OR is_replica_client(client_id)
                -- A broker asks the coordinator whether a transaction may write to a partition.
                OR regexp_matches(client_id, '^AddPartitionsManager-client-[0-9]+$')
                THEN 'replica'
        END AS traffic
    FROM requests
    WHERE wire = 'kafka'
) AS told
WHERE traffic IS NOT NULL
GROUP BY connection, connection_number
