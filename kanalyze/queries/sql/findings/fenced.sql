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
        errors.connection,
        errors.connection_number,
        errors.correlation_id,
        errors.client_id,
        errors.client_ip,
        errors.api_name,
        errors.group_id,
        requests.transactional_id,
        min(errors.error_name) AS error_name,
        min(errors.error_code) AS error_code,
        min(errors.request_start_ns) AS request_start_ns,
        min(errors.request_packet) AS request_packet
    FROM errors
    JOIN requests ON errors.request_id = requests.request_id
    WHERE errors.error_code IN (
        47, -- INVALID_PRODUCER_EPOCH
        82, -- FENCED_INSTANCE_ID
        90, -- PRODUCER_FENCED
        111 -- UNRELEASED_INSTANCE_ID
    )
    GROUP BY
        errors.request_id, errors.connection, errors.connection_number, errors.correlation_id,
        errors.client_id, errors.client_ip, errors.api_name, errors.group_id,
        requests.transactional_id
),
instances AS (
    SELECT
        connection,
        connection_number,
        correlation_id,
        request_start_ns,
        max(group_instance_id) AS group_instance_id
    FROM groups
    GROUP BY connection, connection_number, correlation_id, request_start_ns
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
    GROUP BY group_id, group_instance_id, client_id, client_ip
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
    GROUP BY
        group_id,
        regexp_extract(member_id, '^(.+)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$', 1),
        client_id,
        client_ip
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
    GROUP BY transactional_id, client_id, client_ip
),
shut_out AS (
    SELECT
        refused.*,
        CASE WHEN error_code IN (82, 111) THEN 'group.instance.id' ELSE 'transactional.id' END AS kind,
        CASE WHEN error_code IN (82, 111) THEN instances.group_instance_id ELSE transactional_id END
            AS identity
    FROM refused
    LEFT JOIN instances USING (connection, connection_number, correlation_id, request_start_ns)
),
counted AS (
    SELECT
        client_id,
        client_ip,
        kind,
        identity,
        CASE WHEN kind = 'group.instance.id' THEN group_id END AS group_id,
        -- rows: list(DISTINCT request_id) AS request_ids,
        count(*) AS refused,
        array_to_string(list_sort(list(DISTINCT api_name)), ', ') AS api_names,
        CASE WHEN min(api_name) = max(api_name) THEN min(api_name) END AS api_name,
        min(error_name) AS error_name,
        min(request_start_ns) AS first_time_ns,
        max(request_start_ns) AS last_time_ns,
        min(request_packet) AS first_packet
    FROM shut_out
    GROUP BY
        client_id, client_ip, kind, identity,
        CASE WHEN kind = 'group.instance.id' THEN group_id END
    HAVING count(*) >= $least_requests
)
SELECT
    counted.client_id,
    counted.client_ip,
    counted.group_id,
    counted.api_name,
    counted.error_name,
    concat(
        number_text(counted.refused, 'request'), ' refused (', api_names, '), over ',
        in_s(last_time_ns - first_time_ns), ' s; ',
        CASE
            WHEN counted.identity IS NULL THEN concat('its ', counted.kind, ' is not in this capture')
            WHEN count(others.client_ip) = 0
                THEN concat(
                    'no other client in this capture has its ', counted.kind, ' ', counted.identity,
                    CASE
                        WHEN counted.kind = 'group.instance.id' AND max(own.instances) > 1
                            THEN concat(', with which it joined as ', max(own.instances), ' members')
                        ELSE ''
                    END
                )
            ELSE concat(
                'its ', counted.kind, ' ', counted.identity, ' is also that of ',
                array_to_string(
                    list_sort(list(DISTINCT concat(coalesce(others.client_id, '?'), ' at ', others.client_ip))), ', '
                )
            )
        END
    ) AS what,
    -- rows: any_value(counted.request_ids) AS request_ids,
    counted.refused AS weight,
    first_time_ns,
    last_time_ns,
    first_packet
FROM counted
LEFT JOIN users AS own
    ON counted.kind = own.kind
    AND counted.identity = own.identity
    AND (counted.group_id IS NULL OR counted.group_id = own.group_id)
    AND counted.client_ip = own.client_ip
    AND counted.client_id IS NOT DISTINCT FROM own.client_id
LEFT JOIN users AS others
    ON counted.kind = others.kind
    AND counted.identity = others.identity
    AND (counted.group_id IS NULL OR counted.group_id = others.group_id)
    AND (
        counted.client_ip <> others.client_ip
        OR counted.client_id IS DISTINCT FROM others.client_id
    )
GROUP BY
    counted.client_id, counted.client_ip, counted.group_id, counted.api_name, counted.error_name,
    counted.refused, api_names, last_time_ns, first_time_ns, counted.identity, counted.kind,
    first_packet
ORDER BY weight DESC, client_id NULLS LAST, client_ip, group_id NULLS LAST, error_name
