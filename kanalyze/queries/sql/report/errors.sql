-- Error codes by API and topic; every code in a response counts.
--
-- only if requests: bool_or(array_length(errors) > 0)
WITH frequent AS (
    SELECT
        api_name,
        error_code,
        topic,
        true AS is_frequent
    FROM error_sums
    GROUP BY api_name, error_code, topic
    ORDER BY sum(many) DESC, api_name NULLS LAST, error_code, topic NULLS LAST
    LIMIT $most_keys
)
SELECT
    frequent.api_name,
    frequent.error_code,
    min(error_name) FILTER (WHERE is_frequent) AS error_name,
    frequent.topic,
    is_frequent IS NULL AS other,
    CAST(sum(many) AS BIGINT) AS count,
    min(first_time_ns) AS first_time_ns,
    max(last_time_ns) AS last_time_ns
FROM error_sums
LEFT JOIN frequent
    ON error_sums.api_name IS NOT DISTINCT FROM frequent.api_name
    AND error_sums.error_code = frequent.error_code
    AND error_sums.topic IS NOT DISTINCT FROM frequent.topic
GROUP BY frequent.api_name, frequent.error_code, frequent.topic, other
ORDER BY
    other,
    count DESC,
    frequent.api_name NULLS LAST,
    frequent.error_code,
    frequent.topic NULLS LAST
