-- The partitions with the most bytes, and their numbers on the page.
SELECT
    coalesce(topic, topic_id) AS topic,
    "partition",
    row_number() OVER (
        ORDER BY
            coalesce(sum(record_bytes), 0) DESC,
            coalesce(topic, topic_id) NULLS LAST,
            "partition"
    ) - 1 AS ix
FROM partitions
WHERE
    is_record_api(api_name)
    AND coalesce(error_code, 0) = 0
    AND "partition" IS NOT NULL
GROUP BY coalesce(topic, topic_id), "partition"
ORDER BY ix
LIMIT $most
