-- Clients that a broker of Kafka 4 would refuse.
--
-- severity: 15
-- sure: certain: the versions are those of the requests; Kafka 4.0 removed them (KIP-896).
-- why: Nothing is wrong with this broker. Once it runs Kafka 4.0 or later, these requests are answered with UNSUPPORTED_VERSION or the connection is closed.
-- repair: Before the brokers are upgraded, upgrade the client library: Java clients from 2.1 on, librdkafka from 1.8.2 on, and others of their age, send newer versions.
-- see: versions
-- only if requests: count(*) > 0
-- only if request_sums: bool_or(wire = 'kafka-0.7' OR api_version < (SELECT first_version FROM removed_versions WHERE removed_versions.api_key = request_sums.api_key))
-- parameter least_requests = 1: minimum number of requests with such a version
WITH old AS (
    SELECT
        -- rows: request_id,
        client_id,
        concat(api_name, ' v', api_version) AS version,
        wire = 'kafka-0.7' OR (requests.api_key = 0 AND api_version < 3) AS has_old_format,
        request_start_ns
    FROM requests
    LEFT JOIN removed_versions AS removed ON requests.api_key = removed.api_key
    WHERE
        (wire = 'kafka-0.7' OR api_version < first_version)
        -- Brokers and controllers send these to each other, and are upgraded with the cluster.
        AND requests.api_key NOT IN (4, 5, 6, 7)
        AND status <> 'unanswered'
        AND coalesce(error_code, 0) <> 35
)
SELECT
    client_id,
    concat(
        number_text(count(*), 'request'),
        ' of versions that Kafka 4.0 does not accept: ',
        names_text(version),
        CASE WHEN bool_or(has_old_format) THEN '; records in message format 0 or 1' END
    ) AS what,
    -- rows: list(request_id) AS request_ids,
    count(*) AS weight,
    min(request_start_ns) AS first_time_ns,
    max(request_start_ns) AS last_time_ns
FROM old
GROUP BY client_id
HAVING count(*) >= $least_requests
