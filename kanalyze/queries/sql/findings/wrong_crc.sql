-- Batches of records whose CRC is wrong.
--
-- severity: 87
-- sure: certain: the CRC of the bytes in the capture is another than the batch says. Where they were damaged is likely: a broker checks what is produced, so bytes that it accepts were right when it read them.
-- why: A broker refuses such a batch (CORRUPT_MESSAGE). A consumer that fetches one stops at its offset, and reads no further.
-- repair: Fetched: the log of that broker is damaged (kafka-dump-log.sh --deep-iteration, disk, memory); fetch from another replica, let the broker copy its replica again, or step over the offset. Produced and refused: memory of the client or a device on the way that changes packets. Produced and accepted: the capture was damaged or edited.
-- only if anomalies: bool_or(kind = 'wrong_crc')
-- parameter least_requests = 1: minimum number of messages with such batches
WITH sent AS (
    SELECT
        request_id,
        client_id,
        client_ip,
        broker_ip,
        broker_port,
        api_name,
        status,
        request_start_ns,
        list_contains(anomalies, 'wrong_crc') AS is_wrong,
        list_transform(partitions, lambda p: p.topic) AS topics
    FROM requests
    WHERE
        array_length(partitions) > 0
        -- sessions: OR session_list IS NOT NULL
)
SELECT
    client_id,
    client_ip,
    broker_ip,
    broker_port,
    api_name,
    CASE
        WHEN min(list_min(topics)) FILTER (WHERE is_wrong) = max(list_max(topics)) FILTER (WHERE is_wrong)
            THEN min(list_min(topics)) FILTER (WHERE is_wrong)
    END AS topic,
    concat(
        count(*) FILTER (WHERE is_wrong), ' of ', count(*), ' ', api_name, ' ',
        CASE WHEN api_name = 'Fetch' THEN 'responses' ELSE 'requests' END,
        ' with batches whose CRC is wrong',
        CASE
            WHEN api_name = 'Produce' AND bool_and(status = 'ok' OR NOT is_wrong)
                THEN '; the broker accepted all, so the capture is damaged, not the records'
            WHEN api_name = 'Produce'
                THEN concat(
                    '; the broker refused ', count(*) FILTER (WHERE is_wrong AND status = 'error'),
                    ' and accepted ', count(*) FILTER (WHERE is_wrong AND status = 'ok')
                )
        END
    ) AS what,
    -- rows: list(request_id) FILTER (WHERE is_wrong) AS request_ids,
    count(*) FILTER (WHERE is_wrong) AS weight,
    min(request_start_ns) FILTER (WHERE is_wrong) AS first_time_ns,
    max(request_start_ns) FILTER (WHERE is_wrong) AS last_time_ns
FROM sent
GROUP BY client_id, client_ip, broker_ip, broker_port, api_name
HAVING bool_or(is_wrong) AND count(*) FILTER (WHERE is_wrong) >= $least_requests
