-- Requests that a broker refuses by its rules.
--
-- severity: 78
-- sure: certain: the broker's answer says it.
-- why: What was asked for is not done, and asking again is refused again.
-- repair: POLICY_VIOLATION: see the broker's create.topic.policy or alter.config.policy, which says what it wants. INVALID_RECORD: a compacted topic takes no record without a key; a broker's interceptor may refuse others. INVALID_REQUIRED_ACKS, INVALID_TIMESTAMP: settings of the producer against those of the topic.
-- parameter least_requests = 1: requests that were refused, at least
SELECT
    error_name,
    api_name,
    client_id,
    topic,
    concat(refused_text, span_text) AS what,
    refused AS weight,
    first_time_ns,
    last_time_ns,
    first_packet
FROM refusals
WHERE refused >= $least_requests AND error_code IN (
    21, -- INVALID_REQUIRED_ACKS
    32, -- INVALID_TIMESTAMP
    44, -- POLICY_VIOLATION
    87  -- INVALID_RECORD
)
ORDER BY weight DESC, error_name, api_name NULLS LAST, client_id NULLS LAST, topic NULLS LAST
