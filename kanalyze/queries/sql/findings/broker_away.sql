-- Brokers that take no connections for a while.
--
-- severity: 78
-- show: connections
-- sure: likely: connections to an address came to nothing where others, before or after, came to something.
-- why: Partitions that it leads have no leader until the others notice, and clients that know no other broker stand still.
-- repair: See when it began, and the broker's log and the kernel's of that time: a restart, out of memory, a full disk, a new certificate or port. A backlog of connections that is full (SYNs without an answer) looks the same.
-- parameter least_attempts = 3: connections that came to nothing, at least
-- parameter least_span_s = 1: seconds over which that goes on, at least
WITH attempts AS (
    SELECT
        broker_ip,
        broker_port,
        client_ip,
        start_ns,
        first_packet,
        closed_by,
        protocol IN ('kafka', 'kafka-0.7', 'tls') AND broker_payload_bytes > 0 AS is_answered,
        opened_by = 'client' AND client_payload_bytes + broker_payload_bytes = 0
        AND (
            ("end" = 'reset' AND closed_by = 'broker')
            OR (broker_packets = 0 AND client_syn_retransmissions > 0)
        ) AS is_vain
    FROM connections
)
SELECT
    broker_ip,
    broker_port,
    concat(
        count(*) FILTER (WHERE is_vain), ' connections of ',
        count(DISTINCT CASE WHEN is_vain THEN client_ip END), ' clients in ',
        round((max(CASE WHEN is_vain THEN start_ns END) - min(CASE WHEN is_vain THEN start_ns END)) / 1e9, 1),
        ' s came to nothing: ', count(*) FILTER (WHERE is_vain AND closed_by = 'broker'), ' refused, ',
        count(*) FILTER (WHERE is_vain AND closed_by IS DISTINCT FROM 'broker'), ' not answered; ',
        count(*) FILTER (WHERE is_answered), ' others were taken'
    ) AS what,
    count(*) FILTER (WHERE is_vain) AS weight,
    min(CASE WHEN is_vain THEN start_ns END) AS first_time_ns,
    max(CASE WHEN is_vain THEN start_ns END) AS last_time_ns,
    min(CASE WHEN is_vain THEN first_packet END) AS first_packet
FROM attempts
GROUP BY broker_ip, broker_port
HAVING
    count(*) FILTER (WHERE is_vain) >= $least_attempts
    AND count(*) FILTER (WHERE is_answered) > 0
    AND max(CASE WHEN is_vain THEN start_ns END) - min(CASE WHEN is_vain THEN start_ns END)
    >= $least_span_s * 1000000000
ORDER BY weight DESC, broker_ip, broker_port
