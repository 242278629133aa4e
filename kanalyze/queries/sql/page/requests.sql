-- Requests with the numbers of their names, once for each of their topics.
--
-- -1 is a name without a number of its own, -2 is no name. A request with several topics is here
-- several times; all but one of these lines have `is_again`. Records are those of the topic.
SELECT
    measured.request_id,
    coalesce(page_clients.ix, -1) AS client,
    coalesce(page_apis.ix, -1) AS api,
    coalesce(page_versions.ix, -1) AS version,
    coalesce(page_brokers.ix, -1) AS broker,
    CASE WHEN measured.group_id IS NULL THEN -2 ELSE coalesce(page_groups.ix, -1) END AS "group",
    coalesce(named.topic, -2) AS topic,
    coalesce(named.topic <> several.first_topic, false) AS is_again,
    has_waited AS waited,
    status,
    is_unread,
    coalesce(request_start_ns, response_start_ns) AS time_ns,
    response_bytes IS NOT NULL AS is_answered,
    coalesce(request_bytes, 0) AS request_bytes,
    coalesce(response_bytes, 0) AS response_bytes,
    CASE WHEN is_produce OR is_fetch THEN coalesce(named.records, 0) ELSE 0 END AS records,
    CASE WHEN is_produce OR is_fetch THEN coalesce(named.record_bytes, 0) ELSE 0 END
        AS record_bytes,
    (is_produce OR is_fetch) AND has_uncounted_records AS is_uncounted,
    coalesce(throttle_time_ms, 0) > 0 AS is_throttled,
    latency_ns,
    latency_bin
FROM measured
LEFT JOIN page_named AS named ON measured.request_id = named.request_id
LEFT JOIN page_several AS several ON measured.request_id = several.request_id
LEFT JOIN page_clients ON measured.client_id IS NOT DISTINCT FROM page_clients.name
LEFT JOIN page_apis
    ON measured.wire = page_apis.wire
    AND measured.api_key IS NOT DISTINCT FROM page_apis.api_key
    AND measured.api_name IS NOT DISTINCT FROM page_apis.api_name
LEFT JOIN page_versions
    ON measured.wire = page_versions.wire
    AND measured.api_key IS NOT DISTINCT FROM page_versions.api_key
    AND measured.api_version IS NOT DISTINCT FROM page_versions.api_version
    AND is_request
LEFT JOIN page_brokers
    ON measured.broker_ip = page_brokers.broker_ip
    AND measured.broker_port = page_brokers.broker_port
LEFT JOIN page_groups ON measured.group_id = page_groups.name
