-- Batches of producers: codec, and sizes of each partition of a request.
WITH counted AS (
    SELECT
        client_id,
        codec,
        count(DISTINCT request_id) AS requests,
        count(*) AS batches,
        sum(record_count) AS records,
        sum(record_bytes) AS bytes
    FROM partitions
    WHERE api_name IN ('Produce', 'MultiProduce') AND codec IS NOT NULL
    GROUP BY client_id, codec
)
SELECT
    counted.*,
    sizes.p50 AS bytes_p50,
    counts.p50 AS records_p50
FROM counted
LEFT JOIN quantiles AS sizes
    ON sizes.subject = 'codec'
    AND sizes.measure = 'record_bytes'
    AND sizes.key_1 IS NOT DISTINCT FROM counted.client_id
    AND sizes.key_2 = counted.codec
LEFT JOIN quantiles AS counts
    ON counts.subject = 'codec'
    AND counts.measure = 'record_count'
    AND counts.key_1 IS NOT DISTINCT FROM counted.client_id
    AND counts.key_2 = counted.codec
ORDER BY bytes DESC, client_id NULLS LAST, codec
LIMIT $most_keys
