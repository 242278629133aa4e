-- How clients pack what they produce: codec, and sizes for each partition of a request.
SELECT
    client_id,
    codec,
    count(DISTINCT request_id) AS requests,
    count(*) AS batches,
    sum(record_count) AS records,
    sum(record_bytes) AS bytes,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY record_bytes) AS bytes_p50,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY record_count) AS records_p50
FROM partitions
WHERE api_name IN ('Produce', 'MultiProduce') AND codec IS NOT NULL
GROUP BY client_id, codec
ORDER BY bytes DESC, client_id NULLS LAST, codec
LIMIT $most_keys
