-- Brokers that left and came back, and nothing failed.
--
-- severity: 5
-- show: connections
-- sure: likely: connections to an address failed, then one succeeded; no write was lost, refused for want of replicas or took a second meanwhile, as far as the capture shows.
-- why: Nothing is wrong: clients moved to other brokers. It explains rebalances, new connections and metadata at that time.
-- repair: Nothing, if it was restarted on purpose; else look for the reason in the broker's log.
-- see: over_time
-- only if connections: bool_or(opened_by = 'client' AND client_payload_bytes = 0 AND broker_payload_bytes = 0)
-- parameter least_attempts = 2: minimum number of failed connections; clients that know of others try few times
-- parameter least_away_s = 1: minimum seconds from its last answer, or else the first failed connection, until it was back
SELECT
    broker_ip,
    broker_port,
    concat(
        CASE
            WHEN left_ns IS NULL
                THEN concat('not reachable at first; it came ', in_s(back_ns - first_ns), ' s later; ')
            ELSE concat('left, and was back ', in_s(back_ns - left_ns), ' s later; ')
        END,
        number_text(attempts, 'connection'), ' failed meanwhile, no write; others answered ', moved,
        ' of ', number_text(clients, 'client'),
        CASE WHEN is_controller THEN '; the address is a controller''s' END
    ) AS what,
    -- rows: connection_keys,
    attempts AS weight,
    from_ns AS first_time_ns,
    back_ns AS last_time_ns,
    first_packet
FROM outages
WHERE
    is_orderly
    AND attempts >= $least_attempts
    AND back_ns - from_ns >= $least_away_s * 1000000000
