-- What a broker answers without waiting for anyone.
CREATE TEMP MACRO is_answered_alone(api) AS
    api IN (
        'Fetch', 'ListOffsets', 'Metadata', 'ApiVersions', 'Heartbeat', 'OffsetFetch',
        'FindCoordinator', 'BrokerHeartbeat', 'ConsumerGroupHeartbeat', 'DescribeCluster'
    )
