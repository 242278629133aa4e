-- Brokers that accept no connections for a while.
--
-- severity: 78
-- show: connections
-- sure: likely: connections to an address failed, while earlier or later ones succeeded.
-- why: Partitions that it leads have no leader until the other brokers notice, and clients that know no other broker cannot work.
-- repair: See when it began, and read the logs of the broker and of its kernel for that time: a restart, out of memory, a full disk, a new certificate or port. A full backlog of connections (SYNs without an answer) looks the same.
-- only if connections: bool_or(opened_by = 'client' AND client_payload_bytes = 0 AND broker_payload_bytes = 0)
-- parameter least_attempts = 3: minimum number of failed connections
-- parameter least_span_s = 1: minimum seconds over which they fail
SELECT
    broker_ip,
    broker_port,
    concat(
        number_text(count(*) FILTER (WHERE is_vain), 'connection'), ' of ',
        number_text(count(DISTINCT CASE WHEN is_vain THEN client_ip END), 'client'), ' in ',
        in_s(max(CASE WHEN is_vain THEN start_ns END) - min(CASE WHEN is_vain THEN start_ns END)),
        ' s failed: ', count(*) FILTER (WHERE is_vain AND closed_by = 'broker'), ' refused, ',
        count(*) FILTER (WHERE is_vain AND closed_by IS DISTINCT FROM 'broker'), ' not answered; ',
        number_text(count(*) FILTER (WHERE is_served), 'other'), ' succeeded'
    ) AS what,
    count(*) FILTER (WHERE is_vain) AS weight,
    min(CASE WHEN is_vain THEN start_ns END) AS first_time_ns,
    max(CASE WHEN is_vain THEN start_ns END) AS last_time_ns,
    min(CASE WHEN is_vain THEN first_packet END) AS first_packet
FROM attempts
GROUP BY broker_ip, broker_port
HAVING
    count(*) FILTER (WHERE is_vain) >= $least_attempts
    AND count(*) FILTER (WHERE is_served) > 0
    AND max(CASE WHEN is_vain THEN start_ns END) - min(CASE WHEN is_vain THEN start_ns END)
    >= $least_span_s * 1000000000
ORDER BY weight DESC, broker_ip, broker_port
