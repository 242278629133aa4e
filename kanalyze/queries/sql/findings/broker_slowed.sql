-- A broker that is slower than it was, or than brokers are.
--
-- `slow_broker` compares brokers with each other; this needs only one. Spans of 2 s are compared with
-- the fastest fifth of the capture, and with stated norms, for writes and for what a broker answers from
-- memory. Fetches do not count: whether one waited on purpose is not always known, and they differ most
-- in size. Nor does the time that a request waits for the one before it on its connection.
--
-- severity: 68
-- sure: likely: the same broker answered requests of about the same size several times as fast in other seconds of the capture, or is slower than the norm.
-- why: Every client of the broker waits for it.
-- repair: See what began at that time: a backup, a reassignment, compaction, a rolling restart, other processes on the machine. On the broker: RequestQueueTimeMs (too few threads, no processor), LocalTimeMs (disk), RemoteTimeMs (followers, for acks=all), garbage collection.
-- caused by broker_stood_still: broker
-- caused by narrow_link: machine
-- caused by narrow_link of broker if api_name = Produce
-- caused by packets_lost: machine
-- caused by slow_broker: broker
-- caused by slow_follower
-- only if requests: count(DISTINCT CASE WHEN coalesce(broker_time_ns, latency_ns) >= least($least_ms, $memory_norm_ms, $disk_norm_ms) * 1000000 AND is_unheld(api_name) THEN request_start_ns // 2000000000 END) >= $least_spans
-- parameter least_ms = 100: minimum median of a span in ms
-- parameter least_ratio = 5: minimum ratio to the fastest fifth of the spans
-- parameter memory_norm_ms = 250: or minimum median in ms of what is answered from memory (Metadata, ApiVersions, Heartbeat, FindCoordinator, OffsetFetch, ListOffsets)
-- parameter disk_norm_ms = 500: or minimum median in ms of Produce and OffsetCommit
-- parameter most_larger = 3: maximum ratio of the bytes of these requests to those of all: larger ones take longer
-- parameter least_spans = 5: minimum number of such spans of 2 s
WITH times AS (
    SELECT
        request_id,
        broker_ip,
        broker_port,
        api_name,
        acks,
        request_start_ns // 2000000000 AS span,
        coalesce(broker_time_ns, work_latency_ns) AS time_ns,
        request_bytes + response_bytes AS bytes,
        CASE WHEN api_name IN ('Produce', 'OffsetCommit') THEN $disk_norm_ms ELSE $memory_norm_ms END
        * 1000000 AS norm_ns,
        request_start_ns
    FROM measured
    WHERE
        work_latency_ns IS NOT NULL
        AND request_start_ns IS NOT NULL
        AND is_unheld(api_name)
),
spans AS (
    SELECT
        broker_ip,
        broker_port,
        api_name,
        span,
        norm_ns,
        count(*) AS requests,
        avg(bytes) AS bytes,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY time_ns) AS median_ns
    FROM times
    GROUP BY ALL
    HAVING count(*) >= 3
),
compared AS (
    SELECT
        * EXCLUDE (requests),
        sum(requests) OVER of_api AS requests,
        quantile_disc(bytes, 0.5) OVER of_api AS usual_bytes,
        quantile_disc(median_ns, 0.2) OVER of_api AS usual_ns
    FROM spans
    WINDOW of_api AS (PARTITION BY broker_ip, broker_port, api_name)
),
slow_spans AS (
    SELECT
        *,
        least(norm_ns, greatest($least_ms * 1000000, $least_ratio * usual_ns)) AS limit_ns,
        norm_ns <= usual_ns AS was_always_slow
    FROM compared
    WHERE median_ns >= limit_ns AND bytes <= $most_larger * usual_bytes
),
of_apis AS (
    SELECT
        times.broker_ip,
        times.broker_port,
        times.api_name,
        max(slow_spans.requests) AS requests,
        max(slow_spans.usual_ns) AS usual_ns,
        max(slow_spans.limit_ns) AS limit_ns,
        bool_or(slow_spans.was_always_slow) AS was_always_slow,
        count(*) FILTER (WHERE times.time_ns >= slow_spans.limit_ns) AS slow,
        count(DISTINCT times.span) AS spans,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY times.time_ns) AS median_ns,
        bool_and(times.acks = -1) AS is_for_all,
        -- rows: list(times.request_id) FILTER (WHERE times.time_ns >= slow_spans.limit_ns) AS request_ids,
        min(times.request_start_ns) AS first_time_ns,
        max(times.request_start_ns) AS last_time_ns
    FROM times
    JOIN slow_spans USING (broker_ip, broker_port, api_name, span)
    GROUP BY times.broker_ip, times.broker_port, times.api_name
    HAVING count(DISTINCT times.span) >= $least_spans
),
-- The API with most slow requests says it for all.
placed AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY broker_ip, broker_port ORDER BY slow DESC, api_name) AS place,
        list_sort(list(api_name) OVER of_broker) AS api_names,
        bool_and(coalesce(is_for_all, false)) OVER of_broker AS only_for_all
    FROM of_apis
    WINDOW of_broker AS (PARTITION BY broker_ip, broker_port)
),
told AS (
    SELECT
        *,
        (
            SELECT count(*)
            FROM placed AS also
            WHERE
                also.place = 1
                AND (also.broker_ip <> placed.broker_ip OR also.broker_port <> placed.broker_port)
                AND also.first_time_ns <= placed.last_time_ns
                AND also.last_time_ns >= placed.first_time_ns
        ) AS brokers
    FROM placed
    WHERE place = 1
)
SELECT
    broker_ip,
    broker_port,
    api_name,
    concat(
        slow, ' of ', requests, ' requests took ', in_ms(limit_ns), ' ms or more, ',
        in_ms(median_ns), ' ms at the median of ', 2 * spans, ' s; ',
        CASE
            WHEN was_always_slow
                THEN concat('it was never faster in this capture (', in_ms(usual_ns), ' ms)')
            ELSE concat('in its fastest seconds ', in_ms(usual_ns), ' ms')
        END,
        CASE
            WHEN array_length(api_names) > 1
                THEN concat(
                    '; so did ',
                    array_to_string(list_filter(api_names, lambda name: name <> api_name), ', ')
                )
        END,
        CASE
            WHEN only_for_all
                THEN '; only writes with acks=all are slow, so a follower may be the reason'
        END,
        CASE
            WHEN brokers > 0
                THEN concat('; ', number_text(brokers, 'other broker'), ' slowed at that time')
        END
    ) AS what,
    -- rows: request_ids,
    median_ns / 1e6 AS weight,
    first_time_ns,
    last_time_ns
FROM told
