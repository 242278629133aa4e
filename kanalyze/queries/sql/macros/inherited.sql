-- The partitions of a fetch session that a request inherits: those that it does not name.
CREATE TEMP MACRO inherited(named, of_session) AS
    list_filter(
        of_session,
        lambda s: NOT list_contains(
            list_transform(named, lambda n: row(n.topic, n.topic_id, n."partition")),
            row(s.topic, s.topic_id, s."partition")
        )
    )
