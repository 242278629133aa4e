-- Requests that a broker refuses for what they are or for the state it is in.
--
-- severity: 85
-- sure: certain: the error code says it.
-- why: What was asked for was not done, and most of these codes are not cured by trying again.
-- repair: MESSAGE_TOO_LARGE: max.request.size of the client below max.message.bytes of the topic. Authorization: the ACLs of the principal. NOT_ENOUGH_REPLICAS: replicas that are out of sync, min.insync.replicas. KAFKA_STORAGE_ERROR: the broker's disk. THROTTLING_QUOTA_EXCEEDED, POLICY_VIOLATION: the quota, the policy.
-- parameter least_answers = 1: such answers, at least
SELECT
    error_name,
    api_name,
    client_id,
    topic,
    concat(
        count(*), ' answers ', error_name, ' to ', coalesce(api_name, '?'),
        CASE WHEN topic IS NULL THEN '' ELSE concat(' on ', topic) END
    ) AS what,
    count(*) AS weight,
    min(response_start_ns) AS first_time_ns,
    max(response_start_ns) AS last_time_ns,
    min(request_packet) AS first_packet
FROM errors
WHERE error_code IN (
    10, -- MESSAGE_TOO_LARGE
    18, -- RECORD_LIST_TOO_LARGE
    19, -- NOT_ENOUGH_REPLICAS
    20, -- NOT_ENOUGH_REPLICAS_AFTER_APPEND
    29, -- TOPIC_AUTHORIZATION_FAILED
    30, -- GROUP_AUTHORIZATION_FAILED
    31, -- CLUSTER_AUTHORIZATION_FAILED
    44, -- POLICY_VIOLATION
    53, -- TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    56, -- KAFKA_STORAGE_ERROR
    58, -- SASL_AUTHENTICATION_FAILED
    65, -- DELEGATION_TOKEN_AUTHORIZATION_FAILED
    87, -- INVALID_RECORD
    89  -- THROTTLING_QUOTA_EXCEEDED
)
GROUP BY error_name, api_name, client_id, topic
HAVING count(*) >= $least_answers
ORDER BY weight DESC, error_name, api_name NULLS LAST, client_id NULLS LAST, topic NULLS LAST
