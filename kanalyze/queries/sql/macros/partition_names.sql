-- Which partitions a list has, and whether a broker refused them.
CREATE TEMP MACRO partition_names(partitions) AS
    list_transform(
        partitions,
        lambda p: struct_pack(
            topic := p.topic,
            topic_id := CASE WHEN p.topic IS NULL THEN p.topic_id END,
            number := p."partition",
            is_refused := coalesce(p.error_code, 0) <> 0
        )
    )
