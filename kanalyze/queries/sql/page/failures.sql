-- Error codes of responses by all dimensions of the page.
--
-- A code without a topic is here once for each topic of its request; all but one of these lines
-- have `is_again`.
SELECT
    coalesce(page_codes.ix, -1) AS code,
    CASE WHEN r.client < $clients THEN r.client ELSE -1 END AS client,
    CASE WHEN r.api < $apis THEN r.api ELSE -1 END AS api,
    CASE WHEN r.broker < $brokers THEN r.broker ELSE -1 END AS broker,
    CASE WHEN r."group" < $groups THEN r."group" ELSE -1 END AS "group",
    CASE
        WHEN errors.topic IS NOT NULL
            THEN CASE WHEN page_topics.ix < $topics THEN page_topics.ix ELSE -1 END
        WHEN r.topic < $topics THEN r.topic
        ELSE -1
    END AS topic,
    errors.topic IS NULL AS is_topicless,
    errors.topic IS NULL AND r.is_again AS is_again,
    coalesce((r.time_ns - $start_ns) // $bucket_ns, -1) AS bucket,
    count(*) AS rows,
    min(errors.response_start_ns) AS first_time_ns,
    max(errors.response_start_ns) AS last_time_ns
FROM errors
JOIN page_requests AS r
    ON errors.request_id = r.request_id AND (errors.topic IS NULL OR NOT r.is_again)
LEFT JOIN page_codes ON errors.error_code = page_codes.error_code
LEFT JOIN page_topics ON errors.topic = page_topics.name
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9
ORDER BY 1, 2, 3, 4, 5, 6, 7, 8, 9
LIMIT $most_cells
