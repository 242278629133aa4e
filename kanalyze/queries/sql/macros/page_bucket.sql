-- The number of a time's span on the page; -1 if there is no time.
CREATE TEMP MACRO page_bucket(time_ns, start_ns, bucket_ns) AS
    coalesce((time_ns - start_ns) // bucket_ns, -1)
