-- Batches of idempotent producers that a broker refuses by their sequence numbers.
--
-- An idempotent producer numbers its records by partition; a broker appends a batch only if it follows the
-- last one of that producer and epoch. DUPLICATE_SEQUENCE_NUMBER: it has the batch, and has had others since.
-- OUT_OF_ORDER_SEQUENCE_NUMBER: a batch before it is missing, or it overlaps one that was appended.
-- UNKNOWN_PRODUCER_ID: the broker knows nothing of that producer any more.
--
-- severity: 64
-- sure: certain: the broker's response says so. What was acknowledged before and afterwards is only what this capture has; a producer with several requests in flight sends batches behind a failed one again by itself, in order: those that were accepted then are left out.
-- why: A producer gives up such a batch, or begins anew with another epoch: records may be lost, and a transaction is aborted. Records that are sent again with another epoch may be written twice.
-- repair: If batches before were never accepted: their delivery.timeout.ms was over, or the application went on after an error; raise that timeout above the longest outage of a broker, and end the producer after such an error. If the broker forgot the producer: raise producer.id.expiration.ms and the retention of the topic, and see whether an unclean leader was elected or records were deleted. If batches overlap: the client batches records anew before it sends them again, which is a bug; upgrade it.
-- caused by broker_away
-- caused by broker_stood_still
-- only if errors: bool_or(error_code IN (45, 46, 59))
-- parameter least_batches = 1: minimum number of refused batches
WITH produced AS (
    SELECT
        partitions.request_id,
        partitions.client_id,
        partitions.client_ip,
        requests.transactional_id,
        partitions.topic,
        partitions."partition",
        partitions.producer_id,
        partitions.producer_epoch,
        partitions.base_sequence,
        -- Where the next batch has to begin; after 2^31 - 1 comes 0.
        (partitions.base_sequence + partitions.record_count) % 2147483648 AS next_sequence,
        partitions.record_count,
        partitions.record_bytes,
        partitions.error_code,
        partitions.request_start_ns
    FROM partitions
    JOIN requests ON partitions.request_id = requests.request_id
    WHERE partitions.api_name = 'Produce' AND coalesce(partitions.record_count, 0) BETWEEN 0 AND 4294967296
),
refused AS (
    SELECT
        *,
        CASE error_code
            WHEN 45 THEN 'OUT_OF_ORDER_SEQUENCE_NUMBER'
            WHEN 46 THEN 'DUPLICATE_SEQUENCE_NUMBER'
            ELSE 'UNKNOWN_PRODUCER_ID'
        END AS error_name,
        -- With another epoch a producer numbers from 0 what it has not got acknowledged.
        base_sequence
        - min(base_sequence) OVER (PARTITION BY topic, "partition", producer_id, producer_epoch) AS sequence_anew
    FROM produced
    WHERE error_code IN (45, 46, 59)
),
-- What is sent again although it was accepted is acknowledged again, and moves nothing on.
accepted AS (
    SELECT *
    FROM produced
    WHERE error_code = 0 AND producer_id IS NOT NULL AND next_sequence IS NOT NULL
    QUALIFY row_number() OVER (
        PARTITION BY topic, "partition", producer_id, producer_epoch, base_sequence
        ORDER BY request_start_ns
    ) = 1
),
-- The last acknowledged batch of the producer before a refused one.
after AS (
    SELECT
        refused.*,
        accepted.next_sequence AS expected
    FROM refused
    ASOF LEFT JOIN accepted
        ON refused.topic = accepted.topic
        AND refused."partition" = accepted."partition"
        AND refused.producer_id = accepted.producer_id
        AND refused.producer_epoch = accepted.producer_epoch
        AND refused.request_start_ns > accepted.request_start_ns
),
-- Refused batches that the broker took when they were sent again, perhaps with another epoch.
taken AS (
    SELECT
        refused.request_id,
        refused.topic,
        refused."partition",
        bool_and(is_anew) AS is_anew
    FROM refused
    CROSS JOIN (VALUES (FALSE), (TRUE)) AS epochs (is_anew)
    JOIN accepted
        ON refused.topic = accepted.topic
        AND refused."partition" = accepted."partition"
        AND refused.producer_id = accepted.producer_id
        AND (refused.producer_epoch <> accepted.producer_epoch) = is_anew
        AND CASE WHEN is_anew THEN refused.sequence_anew ELSE refused.base_sequence END = accepted.base_sequence
        AND refused.record_count = accepted.record_count
        AND refused.record_bytes = accepted.record_bytes
        AND refused.request_start_ns < accepted.request_start_ns
    GROUP BY refused.request_id, refused.topic, refused."partition"
),
judged AS (
    SELECT
        after.*,
        taken.request_id IS NOT NULL AS is_taken,
        base_sequence > expected AS has_hole,
        CASE WHEN has_hole THEN struct_pack(since := expected, records := base_sequence - expected) END AS hole,
        base_sequence < expected AS has_overlap,
        base_sequence = expected AS is_next
    FROM after
    LEFT JOIN taken
        ON after.request_id = taken.request_id
        AND after.topic IS NOT DISTINCT FROM taken.topic
        AND after."partition" IS NOT DISTINCT FROM taken."partition"
    -- In order and with the same epoch, nothing is lost: with several requests in flight, each that is
    -- put off (CONCURRENT_TRANSACTIONS) has those behind it refused.
    WHERE taken.is_anew IS DISTINCT FROM FALSE
),
sent AS (
    SELECT
        client_id,
        client_ip,
        topic,
        count(*) AS batches
    FROM produced
    GROUP BY client_id, client_ip, topic
)
SELECT
    judged.client_id,
    judged.client_ip,
    judged.topic,
    'Produce' AS api_name,
    judged.error_name,
    concat(
        count(*), ' of ', max(sent.batches), ' batches refused, in ',
        number_text(count(DISTINCT judged."partition"), 'partition'), ' such as ', min(judged."partition"),
        CASE
            WHEN count(DISTINCT judged.producer_id) = 1
                THEN concat(
                    ', of producer ', min(judged.producer_id), ' epoch ', min(judged.producer_epoch),
                    CASE
                        WHEN min(judged.producer_epoch) < max(judged.producer_epoch)
                            THEN concat(' to ', max(judged.producer_epoch))
                    END
                )
            ELSE concat(', of ', count(DISTINCT judged.producer_id), ' producer ids')
        END,
        CASE
            WHEN min(judged.transactional_id) IS NOT NULL
                THEN concat(' (transactional.id ', min(judged.transactional_id), ')')
        END,
        '; ',
        CASE
            WHEN judged.error_name = 'DUPLICATE_SEQUENCE_NUMBER' THEN 'their records are in the log already'
            ELSE concat(count(*) FILTER (WHERE is_taken), ' accepted when sent again with another epoch')
        END,
        CASE
            WHEN count(*) FILTER (WHERE has_hole) > 0
                THEN concat(
                    '; before ', count(*) FILTER (WHERE has_hole), ', records are missing, such as ',
                    min(hole).records, ' from sequence ', min(hole).since, ' on'
                )
        END,
        CASE
            WHEN count(*) FILTER (WHERE has_overlap) > 0
                THEN concat(
                    '; ', count(*) FILTER (WHERE has_overlap),
                    CASE WHEN count(*) FILTER (WHERE has_overlap) = 1 THEN ' begins' ELSE ' begin' END,
                    ' within what was acknowledged before'
                )
        END,
        CASE
            WHEN count(*) FILTER (WHERE is_next) > 0
                THEN concat(
                    '; ', count(*) FILTER (WHERE is_next),
                    CASE WHEN count(*) FILTER (WHERE is_next) = 1 THEN ' follows' ELSE ' follow' END,
                    ' the last acknowledged batch: the broker had forgotten the producer',
                    -- From Kafka 1.0 on, UNKNOWN_PRODUCER_ID says that.
                    CASE judged.error_name
                        WHEN 'OUT_OF_ORDER_SEQUENCE_NUMBER' THEN ', or lost what it acknowledged'
                    END
                )
        END
    ) AS what,
    -- rows: list(DISTINCT judged.request_id) AS request_ids,
    count(*) AS weight,
    min(judged.request_start_ns) AS first_time_ns,
    max(judged.request_start_ns) AS last_time_ns
FROM judged
JOIN sent
    ON judged.client_id IS NOT DISTINCT FROM sent.client_id
    AND judged.client_ip = sent.client_ip
    AND judged.topic IS NOT DISTINCT FROM sent.topic
GROUP BY judged.client_id, judged.client_ip, judged.topic, judged.error_name
HAVING count(*) >= $least_batches
