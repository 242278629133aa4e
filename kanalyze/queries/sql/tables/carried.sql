-- Requests as in `measured`, with their records.
--
-- Records that a broker refused are left out.
WITH refused AS (
    SELECT
        request_id,
        sum(record_count) AS record_count,
        sum(record_bytes) AS record_bytes
    FROM (
        SELECT
            request_id,
            p.record_count,
            p.record_bytes,
            p.error_code
        FROM (
            SELECT
                request_id,
                unnest(partitions) AS p
            FROM requests
            WHERE status = 'error'
        ) AS failed
    ) AS failed
    WHERE error_code <> 0
    GROUP BY request_id
)
SELECT
    measured.*,
    coalesce(measured.record_count, 0) - coalesce(refused.record_count, 0) AS carried_records,
    coalesce(measured.record_bytes, 0) - coalesce(refused.record_bytes, 0) AS carried_bytes,
    coalesce(refused.record_count, 0) AS refused_records
FROM measured
LEFT JOIN refused ON measured.request_id = refused.request_id
