-- How much is produced to and fetched from each topic, hour by hour?
--
-- A request names many partitions, so they are taken out of their list first. What a broker refused
-- (an error code on the partition) was not written; what it never answered is counted. Bytes are
-- those of record batches as they go over the wire: compressed, and for followers too, which fetch
-- like consumers do. Where records could not be counted (not all of the batch headers are in the
-- capture) `record_count` is null: the sums are a lower bound then, and `uncounted` says how many
-- partitions of requests add nothing to them. A topic of which only the id was seen goes by that.
WITH parts AS (
    SELECT
        date_trunc('hour', make_timestamp(request_start_ns // 1000)) AS hour,
        api_name IN ('Produce', 'MultiProduce') AS is_produced,
        coalesce(topic, topic_id) AS topic,
        record_count,
        record_bytes
    FROM partitions
    WHERE
        -- The names with Multi are those of Kafka 0.7.
        api_name IN ('Produce', 'MultiProduce', 'Fetch', 'MultiFetch', 'ShareFetch')
        AND request_start_ns IS NOT NULL
        AND coalesce(error_code, 0) = 0
)
SELECT
    hour,
    topic,
    coalesce(sum(record_count) FILTER (WHERE is_produced), 0) AS produced_records,
    coalesce(sum(record_bytes) FILTER (WHERE is_produced), 0) AS produced_bytes,
    coalesce(sum(record_count) FILTER (WHERE NOT is_produced), 0) AS fetched_records,
    coalesce(sum(record_bytes) FILTER (WHERE NOT is_produced), 0) AS fetched_bytes,
    count(*) FILTER (WHERE record_count IS NULL) AS uncounted
FROM parts
GROUP BY hour, topic
ORDER BY hour, produced_bytes + fetched_bytes DESC, topic
