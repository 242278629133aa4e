-- Requests refused because of a quota.
--
-- severity: 62
-- sure: certain: the broker's response says so.
-- why: The topics or partitions are not created or deleted; a client that does not wait for the throttle time is refused again.
-- repair: Spread the changes over time, retry after throttle_time_ms, or raise controller_mutation_rate (kafka-configs.sh --alter --entity-type users or clients).
-- only if errors: bool_or(error_code IN (89))
-- parameter least_requests = 1: minimum number of refused requests
SELECT *
FROM refusals
WHERE weight >= $least_requests AND error_code IN (
    89  -- THROTTLING_QUOTA_EXCEEDED
)
