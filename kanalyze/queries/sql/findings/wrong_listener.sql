-- Addresses that a broker advertises to clients, but that cannot be reached.
--
-- severity: 84
-- show: connections
-- tables: metadata
-- sure: likely: Metadata named the address, and no connection to it succeeded in this capture; or no client could reach it (localhost), or none tried to, and one that was told of it only asks for Metadata again.
-- why: Clients reach the bootstrap broker that they were configured with, but none of those that it names: they cannot use a partition that such a broker leads.
-- repair: Set advertised.listeners of the broker to what its clients can reach: the name or address outside the container, the pod or the NAT, and the port that is open there. A firewall in between looks the same.
-- only if metadata: bool_or(host IS NOT NULL)
-- only if attempts: bool_or(is_vain) OR ((SELECT bool_or(client_ip <> broker_ip) FROM metadata) AND EXISTS (SELECT 1 FROM requests GROUP BY client_id, client_ip HAVING count(*) FILTER (WHERE api_name = 'Metadata') >= $least_asks AND bool_and(is_answered_by_any(api_name) OR status = 'orphan_response')))
-- parameter least_attempts = 1: minimum number of failed connections
-- parameter least_asks = 3: minimum number of Metadata requests of a client that is told such an address and does nothing else
-- parameter longest_between_s = 5: maximum mean of the seconds between them, if the address is not localhost
WITH named AS (
    SELECT
        host,
        port
    FROM metadata
    WHERE kind IN ('broker', 'coordinator') AND host IS NOT NULL
    GROUP BY host, port
),
vain AS (
    SELECT
        broker_ip,
        broker_port,
        -- rows: list(connection_key) FILTER (WHERE is_vain) AS connection_keys,
        count(*) FILTER (WHERE is_vain) AS attempts,
        count(*) FILTER (WHERE is_vain AND closed_by = 'broker') AS refused,
        sum(client_syn_retransmissions) FILTER (WHERE is_vain) AS repeated,
        count(DISTINCT CASE WHEN is_vain THEN client_ip END) AS clients,
        min(CASE WHEN is_vain THEN client_ip END) AS client_ip,
        min(CASE WHEN is_vain THEN start_ns END) AS first_time_ns,
        max(CASE WHEN is_vain THEN start_ns END) AS last_time_ns,
        min(CASE WHEN is_vain THEN first_packet END) AS first_packet
    FROM attempts
    GROUP BY broker_ip, broker_port
    HAVING
        count(*) FILTER (WHERE is_vain) >= $least_attempts
        AND count(*) FILTER (WHERE is_answered) = 0
),
tried AS (
    SELECT
        vain.broker_ip,
        vain.broker_port,
        CAST(NULL AS VARCHAR) AS client_id,
        CASE WHEN max(vain.clients) = 1 THEN min(vain.client_ip) END AS client_ip,
        concat(
            number_text(max(vain.attempts), 'attempt'), ' of ',
            number_text(max(vain.clients), 'client'), ' to connect to ',
            array_to_string(list_sort(list(concat(named.host, ':', named.port))), ', '),
            ', as named by Metadata: ', max(vain.refused), ' refused, ',
            max(vain.attempts) - max(vain.refused), ' without any answer (',
            number_text(max(vain.repeated), 'SYN'), ' sent again)'
        ) AS what,
        -- rows: any_value(vain.connection_keys) AS connection_keys,
        max(vain.attempts) AS weight,
        min(vain.first_time_ns) AS first_time_ns,
        max(vain.last_time_ns) AS last_time_ns,
        min(vain.first_packet) AS first_packet
    FROM vain
    JOIN named
        ON vain.broker_port = named.port
        -- No packet of Kafka has the address of a host name.
        AND (vain.broker_ip = named.host OR NOT regexp_matches(named.host, '^[0-9.]+$|:'))
    GROUP BY vain.broker_ip, vain.broker_port
),
-- Where no attempt was captured: what a client asks that cannot go on.
asking AS (
    SELECT
        client_id,
        client_ip,
        -- rows: list(DISTINCT concat(connection, ' ', connection_number)) AS connection_keys,
        count(*) FILTER (WHERE api_name = 'Metadata') AS asks,
        min(request_start_ns) FILTER (WHERE api_name = 'Metadata') AS first_time_ns,
        max(request_start_ns) FILTER (WHERE api_name = 'Metadata') AS last_time_ns
    FROM requests
    WHERE status <> 'orphan_response'
    GROUP BY client_id, client_ip
    HAVING
        count(*) FILTER (WHERE api_name = 'Metadata') >= $least_asks
        AND bool_and(api_name <> 'Metadata' OR status = 'ok')
        AND bool_and(is_answered_by_any(api_name))
),
reached AS (
    SELECT
        client_ip,
        broker_ip,
        broker_port,
        bool_or(is_vain) AS is_vain,
        min(first_packet) AS first_packet
    FROM attempts
    GROUP BY client_ip, broker_ip, broker_port
),
told AS (
    SELECT
        client_id,
        metadata.client_ip,
        metadata.broker_ip,
        metadata.broker_port,
        host,
        port,
        regexp_matches(host, '^(localhost([.]localdomain)?|127[.][0-9.]+|::1|0[.]0[.]0[.]0)$') AS is_own,
        -- Names that only a network of containers, or a company's own, knows; addresses; any name
        -- with a port that the client never came to.
        regexp_matches(host, '^[^.]+$|[.](internal|local|svc|lan)$|^[0-9.]+$')
        OR count(reached.client_ip) = 0 AS is_inner,
        -- Evidence against: the client has tried this address, or one that may be that of the name.
        count(CASE WHEN metadata.host = reached.broker_ip OR reached.is_vain THEN 1 END) AS tried
    FROM metadata
    LEFT JOIN reached
        ON metadata.client_ip = reached.client_ip
        AND metadata.port = reached.broker_port
    WHERE
        kind = 'broker' AND host IS NOT NULL
        -- On the same machine, localhost is right.
        AND metadata.client_ip <> metadata.broker_ip
        AND NOT regexp_matches(metadata.client_ip, '^127[.]|^::1$')
    GROUP BY client_id, metadata.client_ip, metadata.broker_ip, metadata.broker_port, host, port
),
stuck AS (
    SELECT
        told.broker_ip,
        told.broker_port,
        told.client_id,
        told.client_ip,
        concat(
            asking.asks, ' times in ', in_s(asking.last_time_ns - asking.first_time_ns),
            ' s Metadata named ',
            array_to_string(list_sort(list(concat(told.host, ':', told.port))), ', '),
            CASE
                WHEN bool_and(told.is_own) THEN ', the client''s own machine, to a client on another'
                ELSE ', which the client never tried to reach in this capture'
            END,
            '; it asked for nothing else'
        ) AS what,
        -- rows: any_value(asking.connection_keys) AS connection_keys,
        asking.asks AS weight,
        asking.first_time_ns,
        asking.last_time_ns,
        min(reached.first_packet) AS first_packet
    FROM told
    JOIN asking
        ON told.client_id IS NOT DISTINCT FROM asking.client_id
        AND told.client_ip = asking.client_ip
    LEFT JOIN reached
        ON told.client_ip = reached.client_ip
        AND told.broker_ip = reached.broker_ip
        AND told.broker_port = reached.broker_port
    GROUP BY
        told.broker_ip, told.broker_port, told.client_id, told.client_ip, asking.asks,
        asking.first_time_ns, asking.last_time_ns
    HAVING
        sum(told.tried) = 0
        AND (
            bool_and(told.is_own)
            OR (
                bool_and(told.is_own OR told.is_inner)
                AND asking.last_time_ns - asking.first_time_ns
                <= $longest_between_s * 1000000000 * (asking.asks - 1)
            )
        )
)
SELECT * FROM tried
UNION ALL
SELECT * FROM stuck
