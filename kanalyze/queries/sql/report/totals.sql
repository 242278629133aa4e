-- All requests in one line.
--
-- `produced` and `fetched` leave out what a broker refused; `..._known` is false if there were
-- records whose number is unknown.
SELECT
    coalesce(sum(many), 0) AS "rows",
    coalesce(sum(many) FILTER (WHERE is_request), 0) AS requests,
    coalesce(sum(responses), 0) AS responses,
    coalesce(sum(many) FILTER (WHERE status = 'ok'), 0) AS ok,
    coalesce(sum(many) FILTER (WHERE status = 'error'), 0) AS error,
    coalesce(sum(many) FILTER (WHERE status = 'one_way'), 0) AS one_way,
    coalesce(sum(many) FILTER (WHERE status = 'unanswered'), 0) AS unanswered,
    coalesce(sum(many) FILTER (WHERE status = 'orphan_response'), 0) AS orphan_response,
    coalesce(sum(many) FILTER (WHERE status = 'malformed'), 0) AS malformed,
    coalesce(sum(many) FILTER (WHERE is_unread), 0) AS unread,
    coalesce(sum(request_bytes), 0) AS request_bytes,
    coalesce(sum(response_bytes), 0) AS response_bytes,
    coalesce(sum(carried_records) FILTER (WHERE is_produce), 0) AS produced_records,
    coalesce(sum(carried_bytes) FILTER (WHERE is_produce), 0) AS produced_record_bytes,
    NOT coalesce(bool_or(is_produce AND has_uncounted_records), false) AS produced_records_known,
    coalesce(sum(refused_records) FILTER (WHERE is_produce), 0) AS refused_records,
    coalesce(sum(carried_records) FILTER (WHERE is_produce AND status IN ('ok', 'error')), 0)
        AS acknowledged_records,
    coalesce(sum(carried_bytes) FILTER (WHERE is_produce AND status IN ('ok', 'error')), 0)
        AS acknowledged_record_bytes,
    coalesce(sum(carried_records) FILTER (WHERE is_produce AND status = 'unanswered'), 0)
        AS unanswered_records,
    coalesce(sum(carried_records) FILTER (WHERE is_produce AND status = 'one_way'), 0)
        AS one_way_records,
    coalesce(sum(carried_records) FILTER (WHERE is_fetch), 0) AS fetched_records,
    coalesce(sum(carried_bytes) FILTER (WHERE is_fetch), 0) AS fetched_record_bytes,
    NOT coalesce(bool_or(is_fetch AND has_uncounted_records), false) AS fetched_records_known,
    coalesce(sum(throttled), 0) AS throttled,
    coalesce(sum(throttle_time_ms), 0) AS throttle_time_ms
FROM request_sums
