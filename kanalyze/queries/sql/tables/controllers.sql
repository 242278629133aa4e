-- The addresses of controllers' listeners (KRaft): only these get such requests.
SELECT DISTINCT
    broker_ip,
    broker_port
FROM requests
WHERE
    wire = 'kafka'
    AND (
        api_key IN (
            52, -- Vote
            53, -- BeginQuorumEpoch
            54, -- EndQuorumEpoch
            59, -- FetchSnapshot
            62, -- BrokerRegistration
            63, -- BrokerHeartbeat
            70  -- ControllerRegistration
        )
        OR (api_key = 1 AND regexp_matches(client_id, '^raft-client-[0-9]+$'))
    )
