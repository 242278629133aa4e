-- Records produced to and fetched from each topic, and its errors.
--
-- A topic whose name is unknown has its id. Records that a broker refused are not counted;
-- `..._known` is false if there were records whose number is unknown.
--
-- only if requests: bool_or(is_record_api(api_name) OR array_length(errors) > 0)
WITH failed AS (
    SELECT
        topic,
        sum(many) AS errors
    FROM error_sums
    WHERE topic IS NOT NULL
    GROUP BY topic
),
lines AS (
    SELECT
        topic,
        topic_id,
        is_produce,
        CAST(NULL AS VARCHAR) AS status,
        requests,
        0 AS records,
        0 AS bytes,
        false AS is_uncounted,
        0 AS errors
    FROM topic_requests
    UNION ALL
    SELECT
        topic,
        topic_id,
        is_produce_api(api_name) AS is_produce,
        status,
        0 AS requests,
        coalesce(records, 0) AS records,
        coalesce(bytes, 0) AS bytes,
        is_uncounted,
        0 AS errors
    FROM partition_sums
    WHERE NOT is_refused
    UNION ALL
    SELECT
        topic,
        NULL AS topic_id,
        false AS is_produce,
        CAST(NULL AS VARCHAR) AS status,
        0 AS requests,
        0 AS records,
        0 AS bytes,
        false AS is_uncounted,
        errors
    FROM failed
)
SELECT
    topic,
    topic_id,
    sum(CASE WHEN is_produce THEN requests ELSE 0 END) AS produce_requests,
    sum(CASE WHEN is_produce THEN records ELSE 0 END) AS produced_records,
    NOT bool_or(is_produce AND is_uncounted) AS produced_records_known,
    sum(CASE WHEN is_produce THEN bytes ELSE 0 END) AS produced_bytes,
    sum(CASE WHEN is_produce AND status IN ('ok', 'error') THEN records ELSE 0 END) AS acknowledged_records,
    sum(CASE WHEN is_produce AND status IN ('ok', 'error') THEN bytes ELSE 0 END) AS acknowledged_bytes,
    sum(CASE WHEN is_produce AND status = 'unanswered' THEN records ELSE 0 END) AS unanswered_records,
    sum(CASE WHEN is_produce AND status = 'one_way' THEN records ELSE 0 END) AS one_way_records,
    sum(CASE WHEN is_produce THEN 0 ELSE requests END) AS fetch_requests,
    sum(CASE WHEN is_produce THEN 0 ELSE records END) AS fetched_records,
    NOT bool_or(is_uncounted AND NOT is_produce) AS fetched_records_known,
    sum(CASE WHEN is_produce THEN 0 ELSE bytes END) AS fetched_bytes,
    sum(errors) AS errors
FROM lines
GROUP BY topic, topic_id
ORDER BY
    produced_bytes + fetched_bytes DESC,
    produce_requests + fetch_requests DESC,
    topic NULLS LAST,
    topic_id NULLS LAST
