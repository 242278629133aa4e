-- Connections between brokers, and between brokers and controllers.
--
-- Some requests are only sent there (`inner_traffic`); the other requests of such a connection belong to
-- them.
SELECT
    connection,
    connection_number,
    -- A connection to a controller may have requests of both kinds.
    min(traffic) AS traffic
FROM (
    SELECT
        connection,
        connection_number,
        inner_traffic(api_key, client_id) AS traffic
    FROM requests
    WHERE wire = 'kafka'
) AS told
WHERE traffic IS NOT NULL
GROUP BY connection, connection_number
