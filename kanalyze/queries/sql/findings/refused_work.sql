-- Requests that violate a rule of the broker.
--
-- severity: 78
-- sure: certain: the broker's response says so.
-- why: Nothing of the request is done, and a retry is refused again.
-- repair: POLICY_VIOLATION: read the broker's create.topic.policy or alter.config.policy. INVALID_RECORD: a compacted topic accepts no record without a key; a broker's interceptor may refuse others. INVALID_REQUIRED_ACKS, INVALID_TIMESTAMP: compare the producer's settings with those of the topic.
-- only if errors: bool_or(error_code IN (21, 32, 44, 87))
-- parameter least_requests = 1: minimum number of refused requests
SELECT *
FROM refusals
WHERE weight >= $least_requests AND error_code IN (
    21, -- INVALID_REQUIRED_ACKS
    32, -- INVALID_TIMESTAMP
    44, -- POLICY_VIOLATION
    87  -- INVALID_RECORD
)
