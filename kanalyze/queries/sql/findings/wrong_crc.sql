-- Batches of records whose CRC is wrong.
--
-- severity: 87
-- sure: certain: the CRC of the bytes in the capture is another than the batch says. Where they were damaged is likely: a broker checks what is produced, so bytes that it accepts were right when it read them.
-- why: A broker refuses such a batch (CORRUPT_MESSAGE). A consumer that fetches one stops at its offset, and reads no further.
-- repair: Fetched: the log of that broker is damaged (kafka-dump-log.sh --deep-iteration, disk, memory); fetch from another replica, let the broker copy its replica again, or step over the offset. Produced and refused: memory of the client or a device on the way that changes packets. Produced and accepted: the capture was damaged or edited.
-- only if anomalies: bool_or(kind = 'wrong_crc')
-- parameter least_requests = 1: minimum number of messages with such batches
WITH wrong AS (
    SELECT
        requests.request_id,
        requests.client_id,
        requests.client_ip,
        requests.broker_ip,
        requests.broker_port,
        requests.api_name,
        requests.status,
        requests.error_code,
        requests.request_start_ns,
        min(partitions.topic) AS topic,
        max(partitions.topic) AS last_topic
    FROM requests
    LEFT JOIN partitions ON requests.request_id = partitions.request_id
    WHERE list_contains(requests.anomalies, 'wrong_crc')
    GROUP BY
        requests.request_id, requests.client_id, requests.client_ip, requests.broker_ip,
        requests.broker_port, requests.api_name, requests.status, requests.error_code,
        requests.request_start_ns
),
sent AS (
    SELECT
        client_id,
        client_ip,
        broker_ip,
        broker_port,
        api_name,
        count(*) AS asked
    FROM requests
    WHERE array_length(partitions) > 0
    GROUP BY client_id, client_ip, broker_ip, broker_port, api_name
)
SELECT
    wrong.client_id,
    wrong.client_ip,
    wrong.broker_ip,
    wrong.broker_port,
    wrong.api_name,
    CASE WHEN min(topic) = max(last_topic) THEN min(topic) END AS topic,
    concat(
        count(*), ' of ', max(sent.asked), ' ', wrong.api_name, ' ',
        CASE WHEN wrong.api_name = 'Fetch' THEN 'responses' ELSE 'requests' END,
        ' with batches whose CRC is wrong',
        CASE
            WHEN wrong.api_name <> 'Produce' THEN ''
            WHEN count(*) FILTER (WHERE status = 'ok') = count(*)
                THEN '; the broker accepted all, so the capture is damaged, not the records'
            ELSE concat(
                '; the broker refused ', count(*) FILTER (WHERE status = 'error'), ' and accepted ',
                count(*) FILTER (WHERE status = 'ok')
            )
        END
    ) AS what,
    -- rows: list(wrong.request_id) AS request_ids,
    count(*) AS weight,
    min(request_start_ns) AS first_time_ns,
    max(request_start_ns) AS last_time_ns
FROM wrong
LEFT JOIN sent
    ON wrong.client_id IS NOT DISTINCT FROM sent.client_id
    AND wrong.client_ip = sent.client_ip
    AND wrong.broker_ip = sent.broker_ip
    AND wrong.broker_port = sent.broker_port
    AND wrong.api_name = sent.api_name
GROUP BY
    wrong.client_id, wrong.client_ip, wrong.broker_ip, wrong.broker_port, wrong.api_name
HAVING count(*) >= $least_requests
