-- Clients that are shut out because another has their identity.
--
-- severity: 79
-- tables: groups
-- sure: certain: the broker's response says so. Who else has the identity is seen only if the other is in the capture.
-- why: Of two clients with one group.instance.id, or one transactional.id, the broker keeps the newer; the older stops, or is restarted and shuts out the other in turn.
-- repair: Give each member a group.instance.id of its own (the name of its pod or host), and each producer a transactional.id of its own that it keeps over restarts. If there is no other client: a producer that pauses for longer than transaction.timeout.ms is shut out when the broker ends its transaction; one that was restarted shuts out what was left of itself, once.
-- only if errors: bool_or(error_code IN (47, 82, 90, 111))
-- parameter least_requests = 1: minimum number of refused requests
WITH refused AS (
    SELECT
        errors.request_id,
        errors.client_id,
        errors.client_ip,
        errors.api_name,
        min(errors.error_name) AS error_name,
        min(errors.request_start_ns) AS request_start_ns,
        CASE WHEN min(errors.error_code) IN (82, 111) THEN 'group.instance.id' ELSE 'transactional.id' END
            AS kind,
        CASE WHEN min(errors.error_code) IN (82, 111) THEN errors.group_id END AS group_id,
        CASE
            WHEN min(errors.error_code) IN (82, 111) THEN max(groups.group_instance_id)
            ELSE min(requests.transactional_id)
        END AS identity
    FROM errors
    JOIN requests USING (request_id)
    LEFT JOIN groups USING (request_id)
    WHERE errors.error_code IN (
        47, -- INVALID_PRODUCER_EPOCH
        82, -- FENCED_INSTANCE_ID
        90, -- PRODUCER_FENCED
        111 -- UNRELEASED_INSTANCE_ID
    )
    GROUP BY errors.request_id, errors.client_id, errors.client_ip, errors.api_name, errors.group_id
),
-- All that use an identity; the newest member, or the newest connection, is let in.
users AS (
    SELECT
        'group.instance.id' AS kind,
        group_id,
        group_instance_id AS identity,
        client_id,
        client_ip,
        count(DISTINCT member_id) AS instances
    FROM groups
    WHERE group_instance_id IS NOT NULL
    GROUP BY ALL
    UNION ALL
    -- A broker makes the member id of a static member of its group.instance.id and a random UUID.
    SELECT
        'group.instance.id' AS kind,
        group_id,
        regexp_extract(member_id, '^(.+)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$', 1) AS identity,
        client_id,
        client_ip,
        count(DISTINCT member_id) AS instances
    FROM requests
    WHERE member_id IS NOT NULL AND group_id IN (SELECT group_id FROM refused)
    GROUP BY ALL
    UNION ALL
    SELECT
        'transactional.id' AS kind,
        NULL AS group_id,
        transactional_id AS identity,
        client_id,
        client_ip,
        count(DISTINCT concat(connection, ' ', connection_number)) AS instances
    FROM requests
    WHERE transactional_id IS NOT NULL
    GROUP BY ALL
),
counted AS (
    SELECT
        client_id,
        client_ip,
        kind,
        identity,
        group_id,
        -- rows: list(DISTINCT request_id) AS request_ids,
        count(*) AS refused,
        names_text(api_name) AS api_names,
        CASE WHEN min(api_name) = max(api_name) THEN min(api_name) END AS api_name,
        min(error_name) AS error_name,
        min(request_start_ns) AS first_time_ns,
        max(request_start_ns) AS last_time_ns
    FROM refused
    GROUP BY client_id, client_ip, kind, identity, group_id
    HAVING count(*) >= $least_requests
),
compared AS (
    SELECT
        counted.*,
        users.client_id AS user_id,
        users.client_ip AS user_ip,
        users.instances,
        counted.client_ip <> users.client_ip
        OR counted.client_id IS DISTINCT FROM users.client_id AS is_other
    FROM counted
    LEFT JOIN users
        ON counted.kind = users.kind
        AND counted.identity = users.identity
        AND (counted.group_id IS NULL OR counted.group_id = users.group_id)
)
SELECT
    client_id,
    client_ip,
    group_id,
    api_name,
    error_name,
    concat(
        number_text(refused, 'request'), ' refused (', api_names, ')',
        CASE WHEN refused > 1 THEN concat(', over ', in_s(last_time_ns - first_time_ns), ' s') END,
        '; ',
        CASE
            WHEN identity IS NULL THEN concat('its ', kind, ' is not in this capture')
            WHEN count(*) FILTER (WHERE is_other) > 0
                THEN concat(
                    'its ', kind, ' ', identity, ' is also that of ',
                    names_text(
                        CASE WHEN is_other THEN concat(coalesce(user_id, '?'), ' at ', user_ip) END
                    )
                )
            ELSE concat(
                'no other client in this capture has its ', kind, ' ', identity,
                CASE
                    WHEN kind = 'group.instance.id' AND max(instances) > 1
                        THEN concat(', with which it joined as ', max(instances), ' members')
                END
            )
        END
    ) AS what,
    -- rows: any_value(request_ids) AS request_ids,
    refused AS weight,
    first_time_ns,
    last_time_ns
FROM compared
GROUP BY
    client_id, client_ip, group_id, api_name, error_name, refused, api_names, first_time_ns,
    last_time_ns, identity, kind
