-- Requests, with columns that every report needs.
--
-- `work_latency_ns` and `work_total_time_ns` are null if the broker held the response back on
-- purpose, or if there is no response: they measure how slow broker and network are. A request that
-- took longer than its longest wait is among them, with all of its time.
SELECT
    *,
    status <> 'orphan_response' AS is_request,
    status = 'error' AS is_error,
    -- There is a response, and nobody knows whether it has an error code.
    status = 'malformed' AND response_start_ns IS NOT NULL AND error_code IS NULL AS is_unread,
    is_produce_api(api_name) AS is_produce,
    api_name IN ('Fetch', 'MultiFetch', 'ShareFetch') AS is_fetch,
    waited IS TRUE AS has_waited,
    CASE WHEN waited IS NOT TRUE THEN latency_ns END AS work_latency_ns,
    CASE WHEN waited IS NOT TRUE THEN total_time_ns END AS work_total_time_ns,
    amount_bin(latency_ns) AS latency_bin,
    amount_bin(total_time_ns) AS total_time_bin,
    -- There were records, but their number is unknown.
    record_count IS NULL AND CASE
        WHEN is_produce_api(api_name)
            THEN array_length(partitions) > 0 OR status = 'malformed'
        ELSE status <> 'unanswered'
    END AS has_uncounted_records
FROM requests
