-- Addresses that a broker advertises to clients, but that cannot be reached.
--
-- severity: 84
-- show: connections
-- tables: metadata
-- sure: likely: Metadata named the address, and no connection to it succeeded in this capture.
-- why: Clients reach the bootstrap broker that they were configured with, but none of those that it names: they cannot use a partition that such a broker leads.
-- repair: Set advertised.listeners of the broker to what its clients can reach: the name or address outside the container, the pod or the NAT, and the port that is open there. A firewall in between looks the same.
-- only if connections: bool_or(opened_by = 'client' AND client_payload_bytes = 0 AND broker_payload_bytes = 0)
-- only if metadata: bool_or(host IS NOT NULL)
-- parameter least_attempts = 1: minimum number of failed connections
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
)
SELECT
    vain.broker_ip,
    vain.broker_port,
    CASE WHEN max(vain.clients) = 1 THEN min(vain.client_ip) END AS client_ip,
    concat(
        number_text(max(vain.attempts), 'attempt'), ' of ',
        number_text(max(vain.clients), 'client'), ' to connect to ',
        array_to_string(list_sort(list(concat(named.host, ':', named.port))), ', '),
        ', as named by Metadata: ', max(vain.refused), ' refused, ',
        max(vain.attempts) - max(vain.refused), ' without any answer (', number_text(max(vain.repeated), 'SYN'), ' sent again)'
    ) AS what,
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
ORDER BY weight DESC, vain.broker_ip, vain.broker_port
