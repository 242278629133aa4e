-- Members of consumer groups: who they are, and when they left.
SELECT
    group_id,
    member_id,
    min(client_id) AS client_id,
    min(client_ip) AS client_ip,
    max(request_start_ns) FILTER (WHERE event = 'leave') AS left_ns
FROM groups
WHERE member_id IS NOT NULL
GROUP BY group_id, member_id
