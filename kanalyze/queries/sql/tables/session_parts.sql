-- What requests inherit of their fetch sessions, as lines of `partitions`, which lacks it.
--
-- The first and the last request, in place of all that differ in nothing that `partition_sums` counts.
SELECT
    api_name,
    client_id,
    status,
    request_start_ns,
    request_record_count,
    p.topic,
    p."partition"
FROM (
    SELECT
        api_name,
        client_id,
        status,
        request_record_count,
        unnest([first_ns, last_ns]) AS request_start_ns,
        partitions
    FROM (
        SELECT
            session_list,
            api_name,
            client_id,
            status,
            CASE WHEN record_count IS NOT NULL THEN 0 END AS request_record_count,
            min(request_start_ns) AS first_ns,
            max(request_start_ns) AS last_ns
        FROM requests
        WHERE session_list IS NOT NULL
        GROUP BY ALL
    ) AS counted
    JOIN session_lists USING (session_list)
) AS inherited,
unnest(partitions) AS each_part (p)
