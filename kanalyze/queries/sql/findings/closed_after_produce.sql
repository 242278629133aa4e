-- Producers without acknowledgments whose connections the broker closes.
--
-- severity: 80
-- show: connections
-- sure: likely: the broker closed each connection at once after a Produce request with acks=0, again and again; that is how it reports an error there. Which error is in its log alone; sizes are compared.
-- why: The records of that request are lost, and the producer does not know: with acks=0 there is no response.
-- repair: If what is closed is larger than what is not: send smaller records (max.request.size), or raise max.message.bytes of the topic (message.max.bytes of the broker). Otherwise the topic or its leader is another, or the client is not authorized: with acks=1 the response says which.
-- only if requests: count(*) FILTER (WHERE status = 'one_way') >= $least_connections
-- only if connections: count(*) FILTER (WHERE closed_by = 'broker' AND requests > 0) >= $least_connections
-- parameter least_connections = 3: minimum number of such connections
-- parameter longest_s = 1: maximum seconds from the request to the end of its connection
WITH sent AS (
    SELECT
        requests.client_id,
        requests.client_ip,
        requests.broker_ip,
        requests.broker_port,
        requests.request_bytes,
        requests.request_end_ns,
        requests.connection,
        requests.connection_number,
        connections.start_ns,
        connections.closed_ns,
        requests.request_end_ns
        = max(requests.request_end_ns) OVER (PARTITION BY requests.connection, requests.connection_number)
        AND connections.closed_by = 'broker'
        AND connections.closed_ns - requests.request_end_ns
        BETWEEN 0 AND $longest_s * 1000000000 AS is_cut
    FROM requests
    JOIN connections USING (connection, connection_number)
    QUALIFY
        requests.status = 'one_way' AND requests.api_name = 'Produce' AND requests.wire = 'kafka'
)
SELECT
    client_id,
    client_ip,
    broker_ip,
    broker_port,
    concat(
        number_text(count(*) FILTER (WHERE is_cut), 'connection'), ' of ',
        count(DISTINCT concat(connection, ' ', connection_number)),
        ' with acks=0 closed by the broker, each within ',
        in_ms(max(CASE WHEN is_cut THEN closed_ns - request_end_ns END)),
        ' ms of a Produce request of ', min(CASE WHEN is_cut THEN request_bytes END),
        ' B or more; ',
        CASE
            WHEN count(*) FILTER (WHERE NOT is_cut) = 0 THEN 'there are no other requests of this client'
            ELSE concat(
                number_text(count(*) FILTER (WHERE NOT is_cut), 'other request'), ', of up to ',
                max(CASE WHEN NOT is_cut THEN request_bytes END), ' B, without that'
            )
        END
    ) AS what,
    -- rows: list(concat(connection, ' ', connection_number)) FILTER (WHERE is_cut) AS connection_keys,
    count(*) FILTER (WHERE is_cut) AS weight,
    min(CASE WHEN is_cut THEN start_ns END) AS first_time_ns,
    max(CASE WHEN is_cut THEN start_ns END) AS last_time_ns
FROM sent
GROUP BY client_id, client_ip, broker_ip, broker_port
HAVING
    count(*) FILTER (WHERE is_cut) >= $least_connections
    -- A broker that stops closes all connections at once; this client comes again.
    AND max(CASE WHEN is_cut THEN start_ns END) > min(CASE WHEN is_cut THEN closed_ns END)
