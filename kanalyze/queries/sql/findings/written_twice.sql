-- Records that were written twice.
--
-- A broker may append a batch and its answer may be lost, or come too late, or say that replicas are
-- late. A producer without idempotence sends the batch again, and it is appended again. Offsets show
-- it: between the last write before and the new one, there is room for exactly that batch. Of an idempotent
-- producer, a broker appends no sequence number twice, so what it sent again itself, in the same batches or in
-- others, was written once.
--
-- severity: 74
-- sure: likely: offsets leave room for exactly the records that were sent before without success, and as many of the same size were sent then. Another producer, which the capture does not have, may have written as many; or the client sent others of the same size in their place.
-- why: Consumers read these records twice; sums and counts made of them are wrong.
-- repair: Set enable.idempotence=true on the producer (with acks=all): the broker then answers the second attempt without appending it. With idempotence, a producer that is made anew after an error is another one to the broker: let the application not send again what the first one may have written, or use transactions.
-- caused by broker_stood_still
-- caused by unanswered: client_id
-- caused by broker_away
-- tables: metadata
-- only if connections: bool_and(client_lost_bytes = 0 AND broker_lost_bytes = 0)
-- only if requests: bool_or(is_produce_api(api_name) AND (status = 'unanswered' OR latency_ns >= 1000000000 OR array_length(list_filter(errors, lambda e: e.code IN (7, 20))) > 0))
-- only if without_answer: bool_or(is_produce_api(api_name)) OR (SELECT bool_or(array_length(list_filter(errors, lambda e: e.code IN (7, 20))) > 0) FROM requests)
-- parameter least_batches = 1: minimum number of such batches
-- parameter longest_s = 300: maximum seconds from an attempt to the next
-- Whose writes are all in the capture: a response that is missing in it is not missing.
WITH whole AS (
    SELECT
        connection,
        connection_number,
        CASE WHEN closed_by = 'client' THEN closed_ns END AS left_ns
    FROM connections
    WHERE client_lost_bytes = 0 AND broker_lost_bytes = 0 AND broker_packets > 0
),
produced AS (
    SELECT
        request_id,
        client_id,
        client_ip,
        topic,
        "partition",
        record_count,
        record_bytes,
        base_offset,
        producer_id,
        producer_epoch,
        base_sequence,
        error_code,
        request_start_ns,
        -- The client no longer reads it.
        coalesce(response_start_ns > left_ns, false) AS is_late,
        whole.connection IS NOT NULL
        AND (
            status = 'unanswered'
            OR coalesce(error_code, 0) IN (
                7, -- REQUEST_TIMED_OUT
                20 -- NOT_ENOUGH_REPLICAS_AFTER_APPEND
            )
            OR coalesce(response_start_ns > left_ns, false)
        ) AS is_vain
    FROM partitions
    LEFT JOIN whole USING (connection, connection_number)
    WHERE
        api_name = 'Produce'
        AND record_count BETWEEN 1 AND 4294967296
        AND topic IS NOT NULL
),
vain AS (
    SELECT *
    FROM produced
    WHERE is_vain
),
-- Where each write begins, and where the acknowledged one before it ended.
placed AS (
    SELECT
        *,
        lag(base_offset) OVER of_partition + lag(record_count) OVER of_partition AS end_before
    FROM produced
    WHERE
        NOT is_vain
        AND error_code = 0
        -- Offsets may have any value of 64 bits, which no sum may exceed.
        AND base_offset BETWEEN 0 AND 4611686018427387904
        AND topic IN (SELECT topic FROM vain)
    WINDOW of_partition AS (PARTITION BY topic, "partition" ORDER BY base_offset, request_id)
),
-- Attempts of idempotent producers that a later success covers, in whatever batches.
covered AS (
    SELECT
        vain.request_id,
        vain.topic,
        vain."partition",
        min(placed.request_id) AS success_id
    FROM vain
    JOIN placed
        ON vain.producer_id = placed.producer_id
        AND vain.producer_epoch = placed.producer_epoch
        AND vain.topic = placed.topic
        AND vain."partition" = placed."partition"
        AND vain.base_sequence < placed.base_sequence + placed.record_count
        AND placed.base_sequence < vain.base_sequence + vain.record_count
        AND vain.request_start_ns < placed.request_start_ns
    GROUP BY vain.request_id, vain.topic, vain."partition"
),
lost AS (
    SELECT vain.*
    FROM vain
    LEFT JOIN covered
        ON vain.request_id = covered.request_id
        AND vain.topic = covered.topic
        AND vain."partition" = covered."partition"
    WHERE covered.request_id IS NULL
),
-- The next success of a client with the same size: nothing of that size was acknowledged in between.
sent_again AS (
    SELECT
        lost.*,
        placed.request_id AS again_id,
        placed.base_offset AS again_offset
    FROM lost
    ASOF JOIN placed
        ON coalesce(lost.client_id, '') = coalesce(placed.client_id, '')
        AND lost.client_ip = placed.client_ip
        AND lost.topic = placed.topic
        AND lost."partition" = placed."partition"
        AND lost.record_count = placed.record_count
        AND lost.record_bytes = placed.record_bytes
        AND lost.request_start_ns < placed.request_start_ns
    WHERE placed.request_start_ns - lost.request_start_ns <= $longest_s * 1000000000
        -- Other records of the same producer, which are as many.
        AND NOT coalesce(
            lost.producer_id = placed.producer_id AND lost.producer_epoch = placed.producer_epoch, false
        )
),
-- The first attempts lie before what succeeds next, which may be another batch of the client's.
retried AS (
    SELECT
        placed.request_id,
        placed.client_id,
        placed.client_ip,
        placed.topic,
        placed."partition",
        placed.record_count,
        placed.base_offset,
        placed.base_offset - placed.end_before AS room,
        placed.request_start_ns AS last_time_ns,
        count(*) AS attempts,
        count(DISTINCT vain.again_id) AS batches,
        bool_or(vain.again_id = placed.request_id) AS is_again,
        count(CASE WHEN vain.error_code IN (7, 20) THEN 1 END) AS refused,
        count(CASE WHEN vain.is_late AND vain.error_code = 0 THEN 1 END) AS late,
        -- rows: list_append(list(vain.request_id), placed.request_id) AS request_ids,
        min(vain.request_start_ns) AS first_time_ns
    FROM sent_again AS vain
    JOIN placed
        ON coalesce(vain.client_id, '') = coalesce(placed.client_id, '')
        AND vain.client_ip = placed.client_ip
        AND vain.topic = placed.topic
        AND vain."partition" = placed."partition"
        AND vain.record_count = placed.record_count
        AND vain.request_start_ns < placed.request_start_ns
        AND vain.again_offset >= placed.base_offset
        AND NOT coalesce(
            vain.producer_id = placed.producer_id AND vain.producer_epoch = placed.producer_epoch, false
        )
    GROUP BY
        placed.request_id, placed.client_id, placed.client_ip, placed.topic, placed."partition",
        placed.record_count, placed.base_offset, placed.end_before, placed.request_start_ns
    HAVING is_again OR room > 0
),
judged AS (
    SELECT
        *,
        room > 0 AND room % record_count = 0 AND room <= attempts * record_count AS is_twice
    FROM retried
),
-- Batches sent again that were written once, as their sequence numbers say.
once AS (
    SELECT
        placed.client_id,
        placed.client_ip,
        placed.topic,
        count(DISTINCT concat(placed.request_id, ' ', placed."partition")) AS batches
    FROM covered
    JOIN placed
        ON covered.success_id = placed.request_id
        AND covered.topic = placed.topic
        AND covered."partition" = placed."partition"
    GROUP BY placed.client_id, placed.client_ip, placed.topic
),
counted AS (
    SELECT
        judged.*,
        count(*) FILTER (WHERE is_again) OVER of_topic + coalesce(once.batches, 0) AS sent_again,
        least(
            sent_again, sum(CASE WHEN is_twice THEN least(judged.batches, room // record_count) END) OVER of_topic
        ) AS appended_again
    FROM judged
    LEFT JOIN once
        ON judged.client_id IS NOT DISTINCT FROM once.client_id
        AND judged.client_ip = once.client_ip
        AND judged.topic = once.topic
    WINDOW of_topic AS (PARTITION BY judged.client_id, judged.client_ip, judged.topic)
)
SELECT
    client_id,
    client_ip,
    topic,
    'Produce' AS api_name,
    concat(
        appended_again, ' of ', sent_again, ' batch', CASE WHEN sent_again = 1 THEN '' ELSE 'es' END,
        ' sent again ', CASE WHEN sent_again = 1 THEN 'was' ELSE 'were' END,
        ' appended again: ', number_text(CAST(sum(room) FILTER (WHERE is_twice) AS BIGINT), 'record'),
        ' in ', number_text(count(DISTINCT "partition") FILTER (WHERE is_twice), 'partition'),
        ', such as ', min(record_count) FILTER (WHERE is_twice), ' from offset ',
        min(base_offset - room) FILTER (WHERE is_twice), ' on, written again; the first attempts had ',
        CASE
            WHEN sum(refused) FILTER (WHERE is_twice) > 0 THEN 'an error that comes after the append'
            WHEN sum(late) FILTER (WHERE is_twice) > 0 THEN 'an answer when the client had gone'
            ELSE 'no answer'
        END
    ) AS what,
    -- rows: flatten(list(request_ids) FILTER (WHERE is_twice)) AS request_ids,
    sum(room) FILTER (WHERE is_twice) AS weight,
    min(first_time_ns) FILTER (WHERE is_twice) AS first_time_ns,
    max(last_time_ns) FILTER (WHERE is_twice) AS last_time_ns
FROM counted
GROUP BY client_id, client_ip, topic, sent_again, appended_again
HAVING count(*) FILTER (WHERE is_twice) >= $least_batches
