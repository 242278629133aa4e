-- Batches of producers: codec, and sizes of each partition of a request.
--
-- only if requests: bool_or(is_produce_api(api_name))
WITH lists AS (
    SELECT
        client_id,
        list_transform(partitions, lambda p: p.codec) AS codecs,
        count(*) AS requests
    FROM requests
    WHERE is_produce_api(api_name)
    GROUP BY client_id, codecs
),
used AS (
    SELECT
        client_id,
        unnest(list_distinct(list_filter(codecs, lambda c: c IS NOT NULL))) AS codec,
        requests
    FROM lists
),
sides AS (
    SELECT
        client_id,
        codec,
        sum(requests) AS requests,
        0 AS batches,
        NULL AS records,
        NULL AS bytes
    FROM used
    GROUP BY client_id, codec
    UNION ALL
    SELECT
        client_id,
        codec,
        0 AS requests,
        count(*) AS batches,
        sum(record_count) AS records,
        sum(record_bytes) AS bytes
    FROM partitions
    WHERE is_produce_api(api_name) AND codec IS NOT NULL
    GROUP BY client_id, codec
),
counted AS (
    SELECT
        client_id,
        codec,
        sum(requests) AS requests,
        sum(batches) AS batches,
        sum(records) AS records,
        sum(bytes) AS bytes
    FROM sides
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
