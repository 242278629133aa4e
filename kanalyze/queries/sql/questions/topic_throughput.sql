-- How much is produced to and fetched from each topic, hour by hour?
--
-- A request has a list of partitions, which is unnested first. What a broker refused (an error code
-- on the partition) was not written; what it never answered is counted. Bytes are those of record
-- batches on the wire: compressed, and including fetches of followers. `record_count` is null if
-- records could not be counted, because not all batch headers are in the capture. Then the sums are
-- a lower bound, and `uncounted` is the number of partitions of requests that they do not include.
-- A topic whose name is unknown has its id.
WITH parts AS (
    SELECT
        date_trunc('hour', make_timestamp(request_start_ns // 1000)) AS hour,
        api_name IN ('Produce', 'MultiProduce') AS is_produced,
        coalesce(topic, topic_id) AS topic,
        record_count,
        record_bytes
    FROM partitions
    WHERE
        -- APIs with Multi are of Kafka 0.7.
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
