-- Producers that send many tiny batches.
--
-- severity: 40
-- sure: certain: sizes are those of the batches sent.
-- why: Each request costs client, network and broker the same, whatever its size; compression needs several records at a time.
-- repair: Raise linger.ms (5 to 100) and batch.size, do not flush after each record, and set compression.type.
-- see: codecs
-- only if requests: bool_or(api_name = 'Produce') AND EXISTS (SELECT 1 FROM requests AS sent WHERE api_name = 'Produce' AND record_bytes > 0 GROUP BY client_id HAVING count(*) * 1e9 >= $least_per_s * greatest(max(request_start_ns) - min(request_start_ns), 1000000000))
-- parameter largest_bytes = 1600: maximum mean of the bytes of records per partition of a request
-- parameter least_per_s = 100: minimum requests per second
WITH sent AS (
    SELECT
        client_id,
        -- rows: list(DISTINCT request_id) AS request_ids,
        count(DISTINCT request_id) AS requests,
        count(*) AS batches,
        avg(record_bytes) AS bytes_each,
        avg(record_count) AS records_each,
        count(*) FILTER (WHERE codec = 'none') AS uncompressed,
        min(request_start_ns) AS first_time_ns,
        max(request_start_ns) AS last_time_ns
    FROM partitions
    WHERE api_name = 'Produce' AND record_bytes > 0 AND request_start_ns IS NOT NULL
    GROUP BY client_id
)
SELECT
    client_id,
    concat(
        requests, ' produce requests, ', CAST(round(requests * 1e9 / (last_time_ns - first_time_ns)) AS BIGINT),
        ' per s, of ', CAST(round(bytes_each) AS BIGINT), ' B and ', round(records_each * 10) / 10,
        ' records for each partition, ', CAST(round(100.0 * uncompressed / batches) AS BIGINT), ' % uncompressed'
    ) AS what,
    -- rows: request_ids,
    requests AS weight,
    first_time_ns,
    last_time_ns,
    'Produce' AS api_name
FROM sent
WHERE
    bytes_each <= $largest_bytes
    AND last_time_ns - first_time_ns >= 1000000000
    AND requests * 1000000000.0 >= $least_per_s * (last_time_ns - first_time_ns)
