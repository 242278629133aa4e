-- How large are the records of each topic?
--
-- Of keys and values together, as they are inside of batches, without headers. Percentiles are exact.
-- What was fetched counts each time. `batch_records` is the median over records of how many are in
-- their batch. The most frequent keys: `kanalyze records --values --top-keys 10`.
WITH sized AS (
    SELECT
        coalesce(topic, topic_id) AS topic,
        api_name,
        coalesce(key_bytes, 0) + coalesce(value_bytes, 0) AS bytes,
        key_bytes,
        value_bytes,
        batch_record_count
    FROM records
    WHERE problem IS NULL AND is_control IS NOT TRUE
)
SELECT
    topic,
    api_name,
    count(*) AS records,
    CAST(sum(bytes) AS BIGINT) AS bytes,
    min(bytes) AS least,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY bytes) AS p50,
    percentile_disc(0.9) WITHIN GROUP (ORDER BY bytes) AS p90,
    percentile_disc(0.99) WITHIN GROUP (ORDER BY bytes) AS p99,
    max(bytes) AS most,
    count(*) FILTER (WHERE key_bytes IS NULL) AS without_key,
    count(*) FILTER (WHERE value_bytes IS NULL) AS tombstones,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY batch_record_count) AS batch_records
FROM sized
GROUP BY topic, api_name
ORDER BY bytes DESC, topic, api_name
