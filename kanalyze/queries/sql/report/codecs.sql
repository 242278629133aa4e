-- Batches of producers: codec, and sizes of each partition of a request.
--
-- only if requests: bool_or(is_produce_api(api_name))
SELECT
    codec_sums.*,
    sizes.p50 AS bytes_p50,
    counts.p50 AS records_p50
FROM codec_sums
LEFT JOIN quantiles AS sizes
    ON sizes.subject = 'codec'
    AND sizes.measure = 'record_bytes'
    AND sizes.key_1 IS NOT DISTINCT FROM codec_sums.client_id
    AND sizes.key_2 = codec_sums.codec
LEFT JOIN quantiles AS counts
    ON counts.subject = 'codec'
    AND counts.measure = 'record_count'
    AND counts.key_1 IS NOT DISTINCT FROM codec_sums.client_id
    AND counts.key_2 = codec_sums.codec
ORDER BY bytes DESC, client_id NULLS LAST, codec
LIMIT $most_keys
