-- Who produces the most bytes?
--
-- A producer is a client id at an address, with its user if one was seen (SASL/PLAIN, SCRAM).
-- `record_bytes` is the size of batches on the wire, including refused ones. `bytes_per_request` is
-- low if batches are small (see linger.ms, batch.size).
WITH produces AS (
    SELECT *
    FROM requests
    WHERE api_name IN ('Produce', 'MultiProduce') -- MultiProduce is of Kafka 0.7
),
sums AS (
    SELECT
        client_id,
        client_ip,
        principal,
        count(*) AS requests,
        count(*) FILTER (WHERE status = 'error') AS errors,
        coalesce(sum(record_count), 0) AS records,
        coalesce(sum(record_bytes), 0) AS bytes,
        coalesce(list_sort(list(DISTINCT acks) FILTER (WHERE acks IS NOT NULL)), []) AS acks
    FROM produces
    GROUP BY client_id, client_ip, principal
),
packed AS (
    SELECT
        client_id,
        client_ip,
        principal,
        list_sort(list(DISTINCT codec)) AS codecs
    FROM partitions
    WHERE api_name IN ('Produce', 'MultiProduce') AND codec IS NOT NULL
    GROUP BY client_id, client_ip, principal
)
SELECT
    sums.client_id,
    sums.client_ip,
    sums.principal,
    requests,
    errors,
    records,
    bytes,
    bytes // requests AS bytes_per_request,
    coalesce(codecs, []) AS codecs,
    acks
FROM sums
LEFT JOIN packed
    ON sums.client_id IS NOT DISTINCT FROM packed.client_id
    AND sums.client_ip = packed.client_ip
    AND sums.principal IS NOT DISTINCT FROM packed.principal
ORDER BY bytes DESC, sums.client_id NULLS FIRST, sums.client_ip, sums.principal NULLS FIRST
LIMIT 50
