-- Batches of producers, counted and summed up by client and codec.
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
)
SELECT
    client_id,
    codec,
    sum(requests) AS requests,
    sum(batches) AS batches,
    sum(records) AS records,
    sum(bytes) AS bytes
FROM sides
GROUP BY client_id, codec
