-- What any broker answers, so a client needs no other for it.
CREATE TEMP MACRO is_answered_by_any(api) AS
    api IN (
        'ApiVersions', 'Metadata', 'SaslHandshake', 'SaslAuthenticate', 'FindCoordinator',
        'InitProducerId', 'GetTelemetrySubscriptions', 'DescribeCluster'
    )
