-- The busiest brokers, and their numbers on the page.
SELECT
    broker_ip,
    broker_port,
    row_number() OVER (
        ORDER BY count(*) FILTER (WHERE is_request) DESC, broker_ip, broker_port
    ) - 1 AS ix
FROM measured
GROUP BY broker_ip, broker_port
ORDER BY ix
LIMIT $most
