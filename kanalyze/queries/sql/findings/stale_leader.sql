-- Clients that keep sending requests to a broker that does not lead the partition.
--
-- severity: 75
-- sure: certain: the broker responds NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH.
-- why: Nothing can be produced to or fetched from the partition by these clients meanwhile.
-- repair: Compare with the leaders in Metadata responses: a client that ignores them, a broker with old metadata, a partition without a leader (kafka-topics.sh --describe --unavailable-partitions).
-- caused by broker_away
-- only if errors: bool_or(error_code IN (6, 74))
-- parameter least_span_s = 30: minimum seconds over which this goes on
WITH refused AS (
    SELECT
        topic,
        client_id,
        broker_ip,
        broker_port,
        -- rows: list(DISTINCT request_id) AS request_ids,
        count(DISTINCT request_id) AS answers,
        min(error_name) AS error_name,
        count(DISTINCT "partition") AS partitions,
        min(request_start_ns) AS first_time_ns,
        max(request_start_ns) AS last_time_ns,
        min(response_start_ns) AS first_response_ns,
        max(response_start_ns) AS last_response_ns
    FROM errors
    WHERE error_code IN (6, 74)
    GROUP BY topic, client_id, broker_ip, broker_port
    HAVING max(response_start_ns) - min(response_start_ns) >= $least_span_s * 1000000000
)
SELECT
    refused.topic,
    refused.client_id,
    refused.broker_ip,
    refused.broker_port,
    concat(
        number_text(max(refused.answers), 'answer'), ' ',
        max(refused.error_name), ' over ',
        in_s(max(refused.last_response_ns - refused.first_response_ns)), ' s, ',
        number_text(max(refused.partitions), 'partition'),
        '; meanwhile it received metadata ',
        number_text(count(told.request_id), 'time')
    ) AS what,
    -- rows: any_value(refused.request_ids) AS request_ids,
    max(refused.answers) AS weight,
    max(refused.first_time_ns) AS first_time_ns,
    max(refused.last_time_ns) AS last_time_ns
FROM refused
LEFT JOIN requests AS told
    ON told.client_id IS NOT DISTINCT FROM refused.client_id
    AND told.api_name = 'Metadata'
    AND told.status = 'ok'
    AND told.response_start_ns BETWEEN refused.first_response_ns AND refused.last_response_ns
GROUP BY refused.topic, refused.client_id, refused.broker_ip, refused.broker_port
