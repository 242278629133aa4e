-- Whether a client id is that of a broker that copies partitions, or of a raft node.
-- Clients of users do not have such names.
CREATE TEMP MACRO is_replica_client(client_id) AS
    coalesce(regexp_matches(client_id, '^(broker-[0-9]+-fetcher-[0-9]+|raft-client-[0-9]+)$'), false)
