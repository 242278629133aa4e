-- A client id in which UUIDs are replaced by `*`, because they change at each start.
CREATE TEMP MACRO without_uuids(client_id) AS
    regexp_replace(
        client_id,
        '[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}',
        '*',
        'g'
    )
