-- Partitions whose disk has failed or is full.
--
-- severity: 92
-- sure: certain: the broker's answer says it.
-- why: The broker has taken the log folder out of use: its partitions neither take nor give records there, until another replica leads or the broker is started again.
-- repair: Look at the broker's log for the folder and the cause (no space left, an I/O error); repair or free the disk, then restart the broker; have log.dirs on disks with room for retention.
-- parameter least_requests = 1: requests that were refused, at least
SELECT
    error_name,
    api_name,
    client_id,
    topic,
    concat(refused_text, span_text) AS what,
    refused AS weight,
    first_time_ns,
    last_time_ns,
    first_packet
FROM refusals
WHERE refused >= $least_requests AND error_code IN (
    56, -- KAFKA_STORAGE_ERROR
    57  -- LOG_DIR_NOT_FOUND
)
ORDER BY weight DESC, error_name, api_name NULLS LAST, client_id NULLS LAST, topic NULLS LAST
