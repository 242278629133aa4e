-- What a broker answers when it can: it holds none of these back on purpose.
CREATE TEMP MACRO is_unheld(api) AS
    api IN (
        'Produce', 'OffsetCommit', 'Metadata', 'ApiVersions', 'Heartbeat', 'FindCoordinator',
        'OffsetFetch', 'ListOffsets'
    )
