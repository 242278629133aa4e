-- Requests that a client is not authorized for.
--
-- severity: 84
-- sure: certain: the broker's response says so.
-- why: Nothing of the request is done, and retrying does not help; some clients retry forever.
-- repair: Grant the operation to the principal (kafka-acls.sh --add --allow-principal User:NAME --operation ... --topic ...), or make the client use the intended topic, group and user.
-- only if errors: bool_or(error_code IN (29, 30, 31, 53, 65))
-- parameter least_requests = 1: minimum number of refused requests
SELECT *
FROM refusals
WHERE weight >= $least_requests AND error_code IN (
    29, -- TOPIC_AUTHORIZATION_FAILED
    30, -- GROUP_AUTHORIZATION_FAILED
    31, -- CLUSTER_AUTHORIZATION_FAILED
    53, -- TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    65  -- DELEGATION_TOKEN_AUTHORIZATION_FAILED
)
