-- Who still sends requests that Kafka 4.0 and later do not take?
--
-- Kafka 4.0 removed old versions of requests (KIP-896), and with ZooKeeper the requests that brokers
-- and controllers sent to one another by it. `first_version` is the oldest that 4.0 takes, null for
-- requests that it takes in no version; Kafka 0.7 went long before.
--
-- A client sends the newest version that it and the broker both know. To an old broker a new client
-- sends old versions too: it is not to blame, and `client_software_version` says so, where the
-- client tells it (ApiVersions 3 and later). What never gets to a broker is seen here as well: the
-- requests of a client that the broker turned away.
SELECT
    client_id,
    client_ip,
    client_software_name,
    client_software_version,
    wire,
    api_name,
    list_sort(list(DISTINCT api_version)) AS versions,
    CASE WHEN wire = 'kafka' THEN nullif(max(first_version), 32767) END AS first_version,
    count(*) AS requests
FROM requests LEFT JOIN removed_versions USING (api_key)
WHERE
    wire = 'kafka-0.7'
    OR api_version < first_version
GROUP BY client_id, client_ip, client_software_name, client_software_version, wire, api_name
ORDER BY requests DESC, client_id, client_ip, wire, api_name
