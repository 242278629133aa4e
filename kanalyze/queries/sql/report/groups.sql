-- Requests by consumer group.
WITH busiest AS (
    SELECT group_id
    FROM measured
    WHERE group_id IS NOT NULL
    GROUP BY group_id
    ORDER BY count(*) FILTER (WHERE is_request) DESC, group_id
    LIMIT $most_keys
)
SELECT
    busiest.group_id,
    busiest.group_id IS NULL AS other,
    count(*) FILTER (WHERE is_request) AS requests,
    count(*) FILTER (WHERE is_request AND api_name = 'JoinGroup') AS joins,
    count(*) FILTER (WHERE is_error) AS errors
FROM measured
LEFT JOIN busiest ON measured.group_id = busiest.group_id
WHERE measured.group_id IS NOT NULL
GROUP BY busiest.group_id, other
ORDER BY other, requests DESC, busiest.group_id
