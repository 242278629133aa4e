-- Who still sends requests that Kafka 4.0 and later do not accept?
--
-- Kafka 4.0 removed old versions of requests (KIP-896), and together with ZooKeeper the requests
-- between brokers and controllers that needed it. `first_version` is the oldest version that 4.0
-- accepts; null for requests that it accepts in no version. Kafka 0.7 was removed long before.
--
-- A client sends the newest version that both it and the broker know. So a new client sends old
-- versions to an old broker and is not the cause; `client_software_version` shows this if the client
-- sends it (ApiVersions 3 and later). Requests that a broker rejects are included.
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
