-- Partitions whose disk has failed or is full.
--
-- severity: 92
-- sure: certain: the broker's response says so.
-- why: The broker has taken the log folder out of use: partitions in it can be neither written nor read, until another replica leads or the broker is restarted.
-- repair: Look in the broker's log for the folder and the cause (no space left, an I/O error); repair or free the disk, then restart the broker; put log.dirs on disks with room for the retention time.
-- only if errors: bool_or(error_code IN (56, 57))
-- parameter least_requests = 1: minimum number of refused requests
SELECT *
FROM refusals
WHERE weight >= $least_requests AND error_code IN (
    56, -- KAFKA_STORAGE_ERROR
    57  -- LOG_DIR_NOT_FOUND
)
