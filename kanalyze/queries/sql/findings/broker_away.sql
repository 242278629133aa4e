-- Brokers that accept no connections for a while.
--
-- severity: 78
-- show: connections
-- sure: likely: connections to an address failed, while earlier or later ones succeeded.
-- why: Partitions that a broker leads have no leader until the others notice; without a controller the others elect one; clients that know no other broker cannot work.
-- repair: See when it began, and read the logs of the broker and of its kernel for that time: a restart, out of memory, a full disk, a new certificate or port. If it answered on open connections meanwhile, it ran: look at its backlog of connections (SYNs without an answer), and for a firewall.
-- see: over_time
-- caused by unanswered: broker
-- only if connections: bool_or(opened_by = 'client' AND client_payload_bytes = 0 AND broker_payload_bytes = 0)
-- parameter least_attempts = 3: minimum number of failed connections
-- parameter least_span_s = 1: minimum seconds over which they fail
SELECT
    broker_ip,
    broker_port,
    concat(
        number_text(attempts, 'connection'), ' of ', number_text(clients, 'client'), ' in ',
        in_s(last_ns - first_ns), ' s failed: ', refused, ' refused, ', attempts - refused,
        ' not answered; ', number_text(served_ever, 'other'), ' succeeded',
        CASE WHEN served_between > 0 THEN concat(', of which ', served_between, ' meanwhile') END,
        CASE
            WHEN moved > 0
                THEN concat(
                    '; other brokers answered ', moved, CASE WHEN clients = 1 THEN ' client' ELSE ' of them' END,
                    ' meanwhile'
                )
        END,
        CASE WHEN is_controller THEN '; the address is a controller''s' END,
        CASE
            WHEN answered > 0
                THEN concat(
                    '; but on connections that were open it answered ', number_text(answered, 'request'),
                    ' meanwhile'
                )
        END,
        CASE
            WHEN back_ns IS NULL THEN '; it was not seen to come back'
            WHEN left_ns IS NOT NULL
                THEN concat('; it was back ', in_s(back_ns - left_ns), ' s after its last answer')
        END,
        CASE WHEN lost > 0 THEN concat('; it left ', number_text(lost, 'write'), ' unanswered') END,
        CASE
            WHEN refused_writes > 0
                THEN concat('; ', number_text(refused_writes, 'write'), ' failed for want of replicas')
        END,
        '; the longest write meanwhile took ' || in_s(longest_write_ns) || ' s'
    ) AS what,
    -- rows: connection_keys,
    -- One node may have several ports: clients wait for the others.
    CASE WHEN is_controller THEN 0 ELSE attempts END AS weight,
    from_ns AS first_time_ns,
    coalesce(back_ns, last_ns) AS last_time_ns,
    first_packet
FROM outages
WHERE
    NOT is_orderly
    AND attempts >= $least_attempts
    AND last_ns - first_ns >= $least_span_s * 1000000000
