-- Clients that ask for metadata again and again.
--
-- severity: 50
-- sure: likely: so many Metadata requests are sent after errors, or by a client that looks for a topic that is not there.
-- why: Each of them is answered from the whole cluster's metadata; many clients that do so load every broker.
-- repair: See the errors of the client just before: an unknown topic, a leader that moved, a listener that is not reachable. Raise reconnect and retry backoff.
-- parameter longest_between_s = 5: seconds between requests, on average, at most
-- parameter least_span_s = 30: seconds over which this goes on, at least
-- parameter least_share = 0.5: share of the client's requests, at least
WITH asked AS (
    SELECT
        client_id,
        count(*) AS all_requests,
        count(*) FILTER (WHERE api_name = 'Metadata') AS requests,
        count(*) FILTER (WHERE api_name = 'Metadata' AND is_error) AS failed,
        min(request_start_ns) FILTER (WHERE api_name = 'Metadata') AS first_time_ns,
        max(request_start_ns) FILTER (WHERE api_name = 'Metadata') AS last_time_ns,
        min(request_packet) FILTER (WHERE api_name = 'Metadata') AS first_packet
    FROM measured
    WHERE request_start_ns IS NOT NULL
    GROUP BY client_id
)
SELECT
    client_id,
    concat(
        requests, ' Metadata requests in ', round((last_time_ns - first_time_ns) / 1e9, 1), ' s, ',
        failed, ' answered with an error'
    ) AS what,
    requests AS weight,
    first_time_ns,
    last_time_ns,
    first_packet,
    'Metadata' AS api_name
FROM asked
WHERE
    last_time_ns - first_time_ns >= $least_span_s * 1000000000
    AND requests >= $least_share * all_requests
    AND last_time_ns - first_time_ns <= $longest_between_s * 1000000000 * requests
ORDER BY weight DESC, client_id NULLS LAST
