-- Requests, counted and summed up by what reports divide them by.
--
-- kept: most tables of a report read it, and planning a query on all columns of requests takes longer
-- than counting.
--
-- `many` are the rows of a line; `first_time_ns` and `last_time_ns` are of their requests. See
-- `measured` and `carried` for the others.
SELECT
    *,
    status <> 'orphan_response' AS is_request,
    status = 'error' AS is_error,
    is_produce_api(api_name) AS is_produce,
    api_name IN ('Fetch', 'MultiFetch', 'ShareFetch') AS is_fetch
FROM (
    SELECT
        wire,
        api_key,
        api_name,
        api_version,
        client_id,
        client_ip,
        client_software_name,
        client_software_version,
        principal,
        broker_ip,
        broker_port,
        group_id,
        status,
        is_unread,
        has_waited,
        count(*) AS many,
        count(response_bytes) AS responses,
        coalesce(sum(request_bytes), 0) AS request_bytes,
        coalesce(sum(response_bytes), 0) AS response_bytes,
        sum(carried_records) AS carried_records,
        sum(carried_bytes) AS carried_bytes,
        sum(refused_records) AS refused_records,
        bool_or(has_uncounted_records) AS has_uncounted_records,
        count(*) FILTER (WHERE error_code = 35) AS refused_versions,
        count(*) FILTER (WHERE throttle_time_ms <> 0) AS throttled,
        coalesce(sum(throttle_time_ms), 0) AS throttle_time_ms,
        sum(total_time_ns) AS total_time_ns,
        max(total_time_ns) AS longest_total_time_ns,
        min(request_start_ns) AS first_time_ns,
        max(request_start_ns) AS last_time_ns
    FROM carried
    GROUP BY
        wire, api_key, api_name, api_version, client_id, client_ip, client_software_name,
        client_software_version, principal, broker_ip, broker_port, group_id, status, is_unread,
        has_waited
) AS counted
