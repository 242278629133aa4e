-- Lists of partitions that requests produced to or fetched from, each once.
--
-- kept: lists are read in a pass of their own, because two such passes at once take more memory.
--
-- Many requests of a client name the same partitions in the same order, and requests of a fetch
-- session inherit up to a thousand each. A partition whose topic's name is unknown has its id.
WITH lists AS (
    SELECT
        partition_names(partitions) AS listed,
        -- sessions: session_list,
        is_produce_api(api_name) AS is_produce,
        count(*) AS requests
    FROM requests
    WHERE is_record_api(api_name)
    GROUP BY ALL
)
SELECT
    list_concat(
        listed
        -- sessions: , partition_names(partitions)
    ) AS listed,
    is_produce,
    requests
FROM lists
-- sessions: LEFT JOIN session_lists USING (session_list)
