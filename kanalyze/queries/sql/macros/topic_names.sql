-- The topics in a list of partitions; one whose name is unknown has its id.
CREATE TEMP MACRO topic_names(partitions) AS
    list_transform(
        partitions,
        lambda p: struct_pack(
            topic := p.topic,
            topic_id := CASE WHEN p.topic IS NULL THEN p.topic_id END
        )
    )
