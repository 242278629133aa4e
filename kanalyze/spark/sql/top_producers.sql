-- Who produces the most bytes?
--
-- A producer is a client id at an address, under a user where one was seen (SASL/PLAIN, SCRAM).
-- `record_bytes` are those of the batches as they go over the wire, refused ones included;
-- `bytes_per_request` is low where batches are small (see linger.ms, batch.size).
SELECT
    client_id,
    client_ip,
    principal,
    count(*) AS requests,
    count_if(status = 'error') AS errors,
    coalesce(sum(record_count), 0) AS records,
    coalesce(sum(record_bytes), 0) AS bytes,
    coalesce(sum(record_bytes), 0) DIV count(*) AS bytes_per_request,
    array_sort(
        array_distinct(flatten(collect_set(filter(partitions.codec, codec -> codec IS NOT NULL))))
    ) AS codecs,
    array_sort(collect_set(acks)) AS acks
FROM requests
WHERE api_name IN ('Produce', 'MultiProduce') -- the second is of Kafka 0.7
GROUP BY client_id, client_ip, principal
ORDER BY bytes DESC, client_id, client_ip, principal
LIMIT 50
