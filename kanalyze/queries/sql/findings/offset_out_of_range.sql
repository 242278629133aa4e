-- Fetches from offsets that a partition does not have.
--
-- severity: 76
-- sure: certain: the broker's response says so; what the client does then is seen only as far as the capture goes.
-- why: The consumer cannot read on from its position. With auto.offset.reset=earliest it reads everything again, with latest it misses what lies between, with none it stops.
-- repair: Below the first offset: the group was away or behind for longer than the topic keeps records (retention.ms, retention.bytes, offsets.retention.minutes); raise these, or consume faster. Beyond the end: the topic was deleted and made again, records were lost with a leader (unclean.leader.election.enable), or an offset of another topic or cluster was committed; reset it (kafka-consumer-groups.sh --reset-offsets).
-- only if errors: bool_or(error_code = 1)
-- parameter least_requests = 1: minimum number of such responses
-- parameter next_s = 10: seconds after a response in which the client's next request shows its reset policy
WITH missed AS (
    SELECT
        request_id,
        client_id,
        client_ip,
        topic,
        "partition",
        request_start_ns,
        response_start_ns
    FROM errors
    WHERE error_code = 1 AND api_name = 'Fetch'
),
sent AS (
    SELECT
        client_id,
        client_ip,
        count(*) AS asked
    FROM requests
    WHERE api_name = 'Fetch' AND request_bytes IS NOT NULL
    GROUP BY client_id, client_ip
),
known AS (
    SELECT
        api_name,
        client_id,
        client_ip,
        topic,
        "partition",
        request_start_ns,
        base_offset,
        high_watermark
    FROM partitions
    WHERE
        api_name IN ('Fetch', 'ListOffsets', 'OffsetCommit', 'TxnOffsetCommit')
        AND topic IN (SELECT topic FROM missed)
        AND (base_offset >= 0 OR high_watermark >= 0)
),
ends AS (
    SELECT
        topic,
        "partition",
        min(high_watermark) AS first_end,
        max(high_watermark) AS last_end
    FROM known
    WHERE api_name = 'Fetch' AND high_watermark >= 0
    GROUP BY topic, "partition"
),
-- One line for each such response and partition: what the client asked and committed next.
next AS (
    SELECT
        missed.request_id,
        missed."partition",
        min(CASE WHEN known.api_name = 'ListOffsets' THEN known.base_offset END) AS told_offset,
        max(CASE WHEN known.api_name <> 'ListOffsets' THEN known.base_offset END) AS committed
    FROM missed
    JOIN known USING (client_ip, topic, "partition")
    WHERE
        missed.client_id IS NOT DISTINCT FROM known.client_id
        AND known.api_name <> 'Fetch'
        AND known.request_start_ns
        BETWEEN missed.response_start_ns AND missed.response_start_ns + $next_s * 1000000000
    GROUP BY ALL
),
judged AS (
    SELECT
        missed.*,
        next.told_offset,
        ends.last_end,
        next.committed > ends.last_end AS is_beyond,
        next.committed,
        next.told_offset >= ends.first_end AS is_latest
    FROM missed
    LEFT JOIN next USING (request_id, "partition")
    LEFT JOIN ends ON missed.topic = ends.topic AND missed."partition" = ends."partition"
)
SELECT
    judged.client_id,
    judged.client_ip,
    'Fetch' AS api_name,
    judged.topic,
    'OFFSET_OUT_OF_RANGE' AS error_name,
    concat(
        count(DISTINCT request_id), ' of ', max(sent.asked), ' Fetch requests refused, of ',
        number_text(count(DISTINCT "partition"), 'partition'), ', over ',
        in_s(max(response_start_ns) - min(response_start_ns)), ' s; ',
        CASE
            WHEN count(told_offset) = 0 AND max(response_start_ns) > (SELECT max(request_start_ns) FROM requests) - 1000000000
                THEN 'the capture ends before the client''s next step'
            WHEN count(told_offset) = 0
                THEN 'the client asks for no other offset then, as with auto.offset.reset=none'
            WHEN bool_and(is_latest) THEN 'then the client goes to the end (auto.offset.reset=latest)'
            WHEN bool_and(NOT is_latest) THEN 'then the client goes back (auto.offset.reset=earliest)'
            ELSE concat('then the client asks for offsets, and is told ', max(told_offset))
        END,
        CASE
            WHEN bool_or(is_beyond)
                THEN concat(
                    '; it commits offset ', max(CASE WHEN is_beyond THEN committed END),
                    ', beyond the end at ', max(CASE WHEN is_beyond THEN last_end END)
                )
        END
    ) AS what,
    -- rows: list(DISTINCT request_id) AS request_ids,
    count(DISTINCT request_id) AS weight,
    min(request_start_ns) AS first_time_ns,
    max(request_start_ns) AS last_time_ns
FROM judged
LEFT JOIN sent
    ON judged.client_id IS NOT DISTINCT FROM sent.client_id AND judged.client_ip = sent.client_ip
GROUP BY judged.client_id, judged.client_ip, judged.topic
HAVING count(DISTINCT request_id) >= $least_requests
