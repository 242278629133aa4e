-- Clients with far more traffic than the others that do the same.
--
-- Producers are compared with producers, and consumers with consumers.
--
-- severity: 20
-- sure: certain: bytes are those of requests and responses.
-- why: One client that uses most of a broker's network threads makes all others wait.
-- repair: Limit it by a quota (producer_byte_rate, consumer_byte_rate, request_percentage), or spread its work over time.
-- see: client_apis
-- only if requests: bool_or(is_record_api(api_name))
-- only if request_sums: greatest(count(DISTINCT CASE WHEN is_produce THEN client_id END), count(DISTINCT CASE WHEN is_fetch THEN client_id END)) + 1 >= $least_clients
-- parameter least_ratio = 5: minimum ratio to the mean of all clients that do the same
-- parameter least_clients = 5: minimum number of clients to compare with
-- parameter least_bytes_per_s = 100000: minimum traffic of the client while it sends; less makes nobody wait
WITH of_clients AS (
    SELECT
        client_id,
        is_produce,
        sum(request_bytes) + sum(response_bytes) AS bytes,
        min(api_name) AS api_name,
        min(first_time_ns) AS first_time_ns,
        max(last_time_ns) AS last_time_ns
    FROM request_sums
    WHERE
        is_request
        AND (is_produce OR is_fetch)
        -- Brokers copy partitions from each other as fast as these are written.
        AND NOT is_replica_client(client_id)
    GROUP BY client_id, is_produce
),
compared AS (
    SELECT
        *,
        sum(bytes) OVER (PARTITION BY is_produce) AS all_bytes,
        count(*) OVER (PARTITION BY is_produce) AS clients
    FROM of_clients
)
SELECT
    client_id,
    api_name,
    concat(
        CAST(round(100.0 * bytes / all_bytes) AS BIGINT), ' % of the bytes of ', clients,
        ' clients that ', CASE WHEN is_produce THEN 'produce' ELSE 'fetch' END, ': ', bytes, ' B'
    ) AS what,
    -- rows: (SELECT list(request_id) FROM measured WHERE is_request AND measured.client_id IS NOT DISTINCT FROM compared.client_id AND CASE WHEN compared.is_produce THEN measured.is_produce ELSE measured.is_fetch END) AS request_ids,
    bytes AS weight,
    first_time_ns,
    last_time_ns
FROM compared
WHERE
    clients >= $least_clients
    AND all_bytes > 0
    AND bytes * clients >= $least_ratio * all_bytes
    -- A few requests within a moment have a rate, and are little.
    AND bytes * 1000000000.0 >= $least_bytes_per_s * greatest(last_time_ns - first_time_ns, 500000000)
