-- The consumer group of each client: of a client id, at an address, with a user.
--
-- Requests that consume name no group, but a consumer sends requests of its group with the same client
-- id. A client with several groups has none here, because nobody can tell which one a request is for.
SELECT
    client_ip,
    client_id,
    principal,
    min(group_id) AS group_id
FROM requests
WHERE group_id IS NOT NULL AND client_id IS NOT NULL
GROUP BY client_ip, client_id, principal
HAVING count(DISTINCT group_id) = 1
