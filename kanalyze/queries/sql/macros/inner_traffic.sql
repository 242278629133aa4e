-- What a request that only brokers and controllers send is for.
-- `controller` or `replica`, as `traffic` in `flows`; null for a request that clients send too.
CREATE TEMP MACRO inner_traffic(api_key, client_id) AS
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
    END
