-- Lists of the partitions of fetch sessions, by the number that requests refer to.
--
-- kept: several tables of a report read it.
--
-- Only requests of a report have such numbers, and then `partitions` of a request lacks those that it
-- inherits of its session. All in a list have a topic with a name.
SELECT
    session_list,
    session_partitions AS partitions
FROM requests
WHERE array_length(session_partitions) > 0
