-- Records that are too large for the topic.
--
-- severity: 84
-- sure: certain: the broker's response says so.
-- why: The records are not written; retries do not help, and the client drops them.
-- repair: Send smaller records, or raise max.message.bytes of the topic (message.max.bytes of the broker), with replica.fetch.max.bytes and the consumers' limits; keep max.request.size and batch.size of the client below it.
-- only if errors: bool_or(error_code IN (10, 18))
-- parameter least_requests = 1: minimum number of refused requests
SELECT *
FROM refusals
WHERE weight >= $least_requests AND error_code IN (
    10, -- MESSAGE_TOO_LARGE
    18  -- RECORD_LIST_TOO_LARGE
)
