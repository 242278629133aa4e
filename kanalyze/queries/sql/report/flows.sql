-- What clients produce to topics, and what groups fetch, most bytes of records first.
--
-- Fetches name no group: it is that of the other requests with the client id, if these have one alone.
--
-- only if requests: bool_or(is_record_api(api_name))
WITH groups_of_clients AS (
    SELECT
        client_id,
        min(group_id) AS group_id
    FROM request_sums
    WHERE group_id IS NOT NULL
    GROUP BY client_id
    HAVING count(DISTINCT group_id) = 1
)
SELECT
    topic,
    topic_id,
    CASE WHEN is_produce_api(api_name) THEN 'produce' ELSE 'fetch' END AS direction,
    CASE WHEN is_produce_api(api_name) OR group_id IS NULL THEN sums.client_id END AS client_id,
    CASE WHEN is_produce_api(api_name) THEN NULL ELSE group_id END AS group_id,
    coalesce(sum(records), 0) AS records,
    coalesce(sum(bytes), 0) AS bytes
FROM partition_sums AS sums
LEFT JOIN groups_of_clients ON sums.client_id = groups_of_clients.client_id
WHERE
    NOT is_refused
    AND NOT is_replica_client(sums.client_id)
    AND coalesce(topic, topic_id) IS NOT NULL
GROUP BY 1, 2, 3, 4, 5
ORDER BY
    bytes DESC, records DESC, topic NULLS LAST, topic_id NULLS LAST, direction,
    client_id NULLS LAST, group_id NULLS LAST
LIMIT $most_keys
