-- Error codes of responses by all dimensions of the page.
--
-- A code without a topic is here once for each topic of its request; all but one of these lines
-- have `is_again`.
SELECT
    coalesce(page_codes.ix, -1) AS code,
    page_number(r.client, $clients) AS client,
    page_number(r.api, $apis) AS api,
    page_number(r.broker, $brokers) AS broker,
    page_number(r."group", $groups) AS "group",
    page_number(
        CASE WHEN errors.topic IS NULL THEN r.topic ELSE page_topics.ix END, $topics
    ) AS topic,
    errors.topic IS NULL AS is_topicless,
    errors.topic IS NULL AND r.is_again AS is_again,
    page_bucket(r.time_ns, $start_ns, $bucket_ns) AS bucket,
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
