"""The tables of a report, once.

In: nothing. Out: :data:`TABLES`, the tables, each with its fields, and with the columns that people
see.

The tables of a report on a terminal and in Markdown, its JSON Schema and the reference are made
from these; ``tools/report_fields.py`` says what else a report has. A new column of a table is a
column of its query in ``queries/sql/report/``, and lines here: one with its meaning, and one in
``columns`` if people shall see it.
"""

from __future__ import annotations

from typing import NamedTuple

from kanalyze.spec.fields import JsonField, fields_of

MOST_VERSIONS = 128
"""Versions of APIs that are listed for one client."""
_MANY, _SOME, _FEW = 40, 10, 5
"""Numbers of lines that a table shows: the table of APIs, the main tables, the other tables."""


class DeclaredColumn(NamedTuple):
    """A column of a table for people."""

    title: str
    field: str
    """The field that it shows, as a path; ``a+b`` for a sum."""
    form: str = ""
    """How the field is written, by a name in ``render/report_tables.py``; by default its kind and
    its unit say it."""
    least: int | None = None
    """Width to which the column may be cut before columns are left out; None if it is never cut."""
    rank: int = 0
    """0 if the column is always shown. Other columns are left out, the highest rank first."""
    style: str = ""
    """A style such as ``bold``, or the name of a rule in ``render/report_tables.py``."""
    when: str = ""
    """``any`` if the column is shown only if a line has something in it, ``known`` if a line has it
    not null, ``several`` if forms, ``several kinds`` if fields of lines differ, ``files`` if there
    are several captures, ``wide`` or ``narrow`` if it depends on the width of the terminal."""


class DeclaredTable(NamedTuple):
    """A table of the report: a list of lines with the same fields."""

    name: str
    meaning: str
    text: str
    """The fields, as in :mod:`kanalyze.spec.fields`."""
    title: str = ""
    """The title for people."""
    sorted_title: str = ""
    """The title if lines are sorted by ``--sort``; empty for a table that keeps its own order."""
    most: int = _SOME
    """Number of lines that are shown."""
    others: str = ""
    """What stands in the first column of the line that sums up all that have no line."""
    columns: tuple[DeclaredColumn, ...] = ()

    @property
    def field(self) -> JsonField:
        """The table as a field of the report."""
        meaning = f"{self.meaning}; null: {FAILED}"
        return JsonField(self.name, "list", meaning, nullable=True, fields=self.fields)

    @property
    def fields(self) -> tuple[JsonField, ...]:
        """The fields of a line."""
        return fields_of(self.text, SHARED)


FAILED = "its query failed: see failed_queries"
"""Why a table is null."""
_OTHERS = "the line sums up all that have no line of their own"
_TO_FIRST_BYTE = "from the last byte of a request to its response's first, of"
_TO_LAST_BYTE = "from the first byte of a request to its response's last, of"
_NOT_WAITED = "requests that did not wait on purpose"
SHARED = {
    "requests": """
        requests count requests
        errors count of these, with an error code other than 0 at any level of the response
    """,
    "unread": """
        unread count of these, with a response whose error codes were not read: they are unknown
    """,
    "bytes": """
        request_bytes count[B] bytes of requests, with size prefixes
        response_bytes count[B] bytes of responses, with size prefixes
    """,
    "latency": f"latency_ns @latency_summary {_TO_FIRST_BYTE} {_NOT_WAITED}",
    "throttling": """
        throttled count responses with a throttle time above 0
        throttle_time_ms integer[ms] sum of throttle times
    """,
    "other": f"other bool whether {_OTHERS}",
    "client_id": "client_id text? client id in the request; null: it has none",
    "api_name": "api_name text? the API; null: unknown API, or the request was not captured",
    "topic": "topic text? topic name; null: only the id is known",
    "topic_id": """
        topic_id text? topic id in Kafka's URL-safe base64; null: the name is known, or no topic
    """,
    "codes": """
        count count number of codes; a response may have several
        first_time_ns time time of the first response with it
        last_time_ns time time of the last response with it
    """,
    "produced_records": "produced_records count records sent and not refused, as far as known",
    "fetched_records": "fetched_records count records in responses, as far as known",
    "produced_known": """
        produced_records_known bool false: there were more, which could not be counted
    """,
    "fetched_known": """
        fetched_records_known bool false: there were more, which could not be counted
    """,
    "unsure_records": """
        unanswered_records count of these, without a response: written or not
        one_way_records count of these, sent with acks=0
    """,
    "part": """
        mean integer[ns]? mean; null: it was not measured for any of them
        per_mille integer? share of the sum of total times, in thousandths; null: it was not \
            measured for any of them, or the sum is below 1 \u00b5s
    """,
}
"""Lines that several tables have."""

# -- columns that several tables have -------------------------------------------------------------

_REQUESTS = DeclaredColumn("requests", "requests")
_ERRORS = DeclaredColumn("errors", "errors", style="alarm")
_UNREAD = DeclaredColumn("not read", "unread", style="alarm", when="any")
_COUNTS = (_REQUESTS, _ERRORS, _UNREAD)
_BYTES = DeclaredColumn("bytes", "request_bytes+response_bytes")
_SENT = DeclaredColumn("sent", "request_bytes")
_RECEIVED = DeclaredColumn("received", "response_bytes")
_P50, _P90, _P99, _MAX = (
    DeclaredColumn(name, f"latency_ns.{name}") for name in ("p50", "p90", "p99", "max")
)
_API = DeclaredColumn("API", "api_name", least=15)
_CLIENT = DeclaredColumn("client", "client_id", least=16, style="bold")
_TOPIC = DeclaredColumn("topic", "topic", "topic", least=16, style="bold")
_FIRST = DeclaredColumn("first", "first_time_ns", rank=1)
_LAST = DeclaredColumn("last", "last_time_ns", rank=2)

# -- the tables -----------------------------------------------------------------------------------


class Part(NamedTuple):
    """A part of the time of a request."""

    name: str
    """The column of requests."""
    title: str
    """The title on a terminal, and the CSS class on a page."""
    page_title: str


PARTS = (
    Part("request_send_ns", "sending", "sending the request"),
    Part("broker_network_ns", "network", "network to the broker and back"),
    Part("retransmission_wait_ns", "resent", "lost packets sent again"),
    Part("pipeline_wait_ns", "queued", "behind the response before"),
    Part("broker_time_ns", "broker", "broker"),
    Part("response_send_ns", "response", "sending the response"),
)
"""The parts of a request's time, in order of time."""
_NO_RECORDS = "the API carries no records"

_APIS = DeclaredTable(
    "apis",
    "by API, most requests first",
    f"""
    wire text(kafka|kafka-0.7) the protocol
    api_key integer? key of the API; in kafka-0.7 the request type; null: responses without a \
        request
    api_name text? its name in Kafka's definitions; null: unknown API, or no request
    other bool always false: every API has a line
    requests count requests
    responses count responses
    versions map(requests) requests by version; unknown: version unknown, other: all after the \
        first 64
    statuses map(rows) rows by status; statuses without rows are missing
    errors count of these, with an error code other than 0 at any level of the response
    ...unread
    ...bytes
    record_count count? records, without refused ones; null: {_NO_RECORDS}
    record_bytes count[B]? the same; null: {_NO_RECORDS}
    record_count_known bool? false: there were more, which could not be counted; null: {_NO_RECORDS}
    ...throttling
    waited object of these requests, those that the broker held back on purpose
        ...requests
        ...bytes
        record_count count? records; null: {_NO_RECORDS}
        latency_ns @latency_summary {_TO_FIRST_BYTE} these
        total_time_ns @latency_summary {_TO_LAST_BYTE} these
    ...latency
    total_time_ns @latency_summary {_TO_LAST_BYTE} {_NOT_WAITED}
    """,
    "Requests by API, with latency",
    "Requests by API, with latency",
    _MANY,
    columns=(
        DeclaredColumn("API", "api_name", "api", least=20, style="bold"),
        *_COUNTS,
        _SENT._replace(when="wide"),
        _RECEIVED._replace(when="wide"),
        _BYTES._replace(when="narrow"),
        DeclaredColumn("records", "record_count", rank=3),
        _P50,
        _P90._replace(rank=2),
        _P99,
        _MAX._replace(rank=1),
    ),
)
_LATENCY_PARTS = DeclaredTable(
    "latency_parts",
    "where the time of requests went, by API, broker and capture point",
    """
    ...api_name
    broker_ip text IP address of the broker
    broker_port integer TCP port of the broker
    capture_point text? where the capture was taken: client, broker, between, or host (both ends \
        on one); null: the round trips do not show it
    requests count requests whose parts are known and that did not wait on purpose
    with_retransmissions count of these, with retransmitted packets
    with_zero_windows count of these, with an end whose receive window was 0
    total_time_ns object from the first byte of a request to the last of its response
        mean integer[ns] mean
    request_send_ns object sending the request
        ...part
    broker_network_ns object network from the capture point to the broker and back
        ...part
    retransmission_wait_ns object waiting until lost bytes of the request were retransmitted
        ...part
    pipeline_wait_ns object waiting for the previous response of the same connection
        ...part
    broker_time_ns object in the broker
        ...part
    response_send_ns object sending the response
        ...part
    client_network_ns object network from the capture point to the client and back; not a part of \
        total_time_ns
        mean integer[ns]? mean; null: it was not measured for any of them
    """,
    "Where the time went (long polls excluded)",
    "Where the time went",
    columns=(
        _API._replace(style="bold"),
        DeclaredColumn("broker address", "broker_ip", "endpoint", least=14, when="several"),
        DeclaredColumn("captured at", "capture_point", rank=1),
        _REQUESTS,
        DeclaredColumn("mean", "total_time_ns.mean"),
        *(
            DeclaredColumn(
                part.title, f"{part.name}.per_mille", "per mille", style="most", when="any"
            )
            for part in PARTS
        ),
    ),
)
_ERROR_CODES = DeclaredTable(
    "errors",
    "error codes by API and topic, most frequent first",
    f"""
    ...api_name
    error_code integer? the error code, not 0; null: {_OTHERS}
    error_name text? its name in Kafka, such as NOT_LEADER_OR_FOLLOWER; null: {_OTHERS}
    topic text? the topic that it concerns; null: none, or its name is unknown, or the line of \
        others
    ...other
    ...codes
    """,
    "Errors by code and topic",
    others="(other errors)",
    columns=(
        DeclaredColumn("error", "error_name", "error", least=34, style="red"),
        _API,
        DeclaredColumn("topic", "topic", "text or id", least=16),
        DeclaredColumn("count", "count"),
        _FIRST,
        _LAST,
    ),
)
_CLIENTS = DeclaredTable(
    "clients",
    "by client id, most requests first",
    f"""
    client_id text? client id in the request; null: it has none, or {_OTHERS}
    ...other
    software texts name and version of the client's software, the first 8, sorted
    more_software bool whether there are more
    client_ips texts its IP addresses, the first 8, sorted
    more_client_ips bool whether there are more
    principals texts users that it authenticated as, the first 8, sorted
    more_principals bool whether there are more
    ...requests
    ...bytes
    ...unread
    ...latency
    """,
    "Busiest clients",
    "Clients",
    others="(other clients)",
    columns=(
        _CLIENT._replace(least=24),
        DeclaredColumn("software", "software", least=14, rank=1),
        DeclaredColumn("from", "client_ips", least=13, rank=2),
        DeclaredColumn("user", "principals", least=6, rank=3, when="any"),
        *_COUNTS,
        _BYTES,
        _P99,
    ),
)
_TOPICS = DeclaredTable(
    "topics",
    "by topic, most bytes first",
    f"""
    topic text? topic name; null: only the id is known, or there is no topic, or {_OTHERS}
    ...topic_id
    ...other
    produce_requests count requests that produced to it
    ...produced_records
    ...produced_known
    produced_bytes count[B] bytes of these records
    acknowledged_records count of these, answered without an error
    acknowledged_bytes count[B] the same
    ...unsure_records
    fetch_requests count requests that fetched from it
    ...fetched_records
    ...fetched_known
    fetched_bytes count[B] bytes of these records
    errors count error codes that concern it, of all APIs
    """,
    "Busiest topics",
    "Topics",
    others="(other topics)",
    columns=(
        _TOPIC,
        DeclaredColumn("produces", "produce_requests", rank=1),
        DeclaredColumn("records in", "produced_records"),
        DeclaredColumn("acked", "acknowledged_records", "acknowledged", rank=2),
        DeclaredColumn("bytes in", "produced_bytes"),
        DeclaredColumn("fetches", "fetch_requests", rank=1),
        DeclaredColumn("records out", "fetched_records"),
        DeclaredColumn("bytes out", "fetched_bytes"),
        _ERRORS,
    ),
)
_GROUPS = DeclaredTable(
    "groups",
    "by consumer group, most requests first",
    f"""
    group_id text? consumer group; null: {_OTHERS}
    ...other
    requests count requests that name it
    joins count of these, JoinGroup
    syncs count of these, SyncGroup
    rebalance_time_ns integer[ns]? of JoinGroup and SyncGroup, from first byte to last, summed \
        over the members; null: no complete response was captured
    longest_join_ns integer[ns]? the longest JoinGroup; null: no complete response
    longest_sync_ns integer[ns]? the longest SyncGroup; null: no complete response
    errors count of these, with an error code other than 0
    ...unread
    """,
    "Consumer groups",
    "Consumer groups",
    others="(other groups)",
    columns=(
        DeclaredColumn("group", "group_id", least=24, style="bold"),
        _REQUESTS,
        DeclaredColumn("joins", "joins"),
        DeclaredColumn("syncs", "syncs", rank=2),
        DeclaredColumn("rebalancing", "rebalance_time_ns"),
        DeclaredColumn("longest join", "longest_join_ns", rank=1),
        DeclaredColumn("longest sync", "longest_sync_ns", rank=3),
        _ERRORS,
        _UNREAD,
    ),
)
_OF_LATEST = "; in the report of an archive that grows, in its latest runs"
_LAG = DeclaredTable(
    "lag",
    f"how far consumer groups are behind in topics at the end, most records first{_OF_LATEST}",
    """
    group_id text consumer group
    topic text topic; its id if its name is not known
    partitions count partitions that the group committed offsets of, asked for, or was assigned
    assigned count of these, assigned to a member at the end, as far as the capture has it
    unknown count of these, whose lag is not known: see the table lag of kanalyze sql
    lag count? records that were written and not committed, summed over the others; null: none
    highest_lag count? the most of one partition; null: none is known
    lag_ns integer[ns]? how long ago the log grew beyond the committed offset, the longest of all \
        partitions; null: not known of any
    last_time_ns time when something was last told of any of them
    """,
    "Lag of consumer groups at the end",
    columns=(
        DeclaredColumn("group", "group_id", least=16, style="bold"),
        DeclaredColumn("topic", "topic", least=16),
        DeclaredColumn("partitions", "partitions"),
        DeclaredColumn("assigned", "assigned", rank=2),
        DeclaredColumn("not known", "unknown", when="any"),
        DeclaredColumn("lag", "lag"),
        DeclaredColumn("highest", "highest_lag", rank=3),
        DeclaredColumn("behind", "lag_ns"),
        DeclaredColumn("as of", "last_time_ns", rank=1),
    ),
)
_FLOWS = DeclaredTable(
    "flows",
    "what clients produce to topics and what is fetched from them, most bytes first; without "
    "brokers' own copies",
    """
    ...topic
    ...topic_id
    direction text(produce|fetch) whether records go to the topic or come from it
    client_id text? the client that produces, or that fetches for no known group; null: it has \
        none, or group_id says who
    group_id text? the consumer group that fetches; null: not known, or records are produced
    records count records, without refused ones, as far as known
    bytes count[B] the same, in batches as sent
    """,
    "Flows of records, by bytes",
    columns=(
        DeclaredColumn("producers", "producers", least=16),
        DeclaredColumn("bytes in", "bytes_in"),
        DeclaredColumn("topic", "topic", "topic", least=16, style="bold"),
        DeclaredColumn("bytes out", "bytes_out"),
        DeclaredColumn("consumers", "consumers", least=16),
    ),
)
_FLOW_MAP = _FLOWS._replace(
    text="""
    producers texts clients that produce to it, most bytes first
    more_producers bool whether there are more
    bytes_in count[B] bytes of their records
    ...topic
    ...topic_id
    bytes_out count[B] bytes of records that were fetched
    consumers texts groups that fetch from it, or clients without one, most bytes first
    more_consumers bool whether there are more
    """
)
"""What people see of :data:`_FLOWS`: a line for each topic, from its producers to its consumers."""
_CHANGES = DeclaredTable(
    "changes",
    f"what clients created, changed or deleted, in order of time{_OF_LATEST}",
    """
    time_ns time? when it was asked for; null: the request was not captured with a time
    principal text? user that authenticated; null: not seen
    ...client_id
    client_ip text IP address of the client
    action text create, delete, set, alter, ...: see the table changes of kanalyze sql
    resource_type text what it is: topic, topic_config, acl, ...
    resource text? its name; null: it has none
    setting text? what of it changes; null: all of it
    before text? value before, as far as changes in the captures tell; null: not known
    value text? what it becomes; [hidden] for a secret; null: nothing, the default, or unknown
    refused text? name of the error, or only tried; null: it was made, or its response is missing
    capture text the input as given
    request_packet count? number of the request's first packet, from 1; null: unknown
    """,
    "Changes that were asked for",
    columns=(
        DeclaredColumn("at", "time_ns"),
        DeclaredColumn("user", "principal", least=6, rank=4, when="any"),
        DeclaredColumn("client", "client_id", least=12, rank=2, style="bold"),
        DeclaredColumn("", "action"),
        DeclaredColumn("what", "resource_type", least=8),
        DeclaredColumn("name", "resource", least=12),
        DeclaredColumn("setting", "setting", least=12),
        DeclaredColumn("to", "value", least=6, rank=1),
        DeclaredColumn("refused", "refused", least=10, style="alarm", when="any"),
        DeclaredColumn("packet", "request_packet", rank=3),
    ),
)
_BROKERS = DeclaredTable(
    "brokers",
    "by broker, most requests first",
    f"""
    broker text? IP:PORT; null: {_OTHERS}
    ...other
    ...requests
    ...bytes
    ...unread
    ...latency
    """,
    "Brokers",
    "Brokers",
    others="(other brokers)",
    columns=(
        DeclaredColumn("broker", "broker", least=24, style="bold"),
        *_COUNTS,
        _SENT,
        _RECEIVED,
        _P50._replace(rank=1),
        _P99,
    ),
)
_CLIENT_APIS = DeclaredTable(
    "client_apis",
    "by client id and API, most requests first",
    """
    ...client_id
    ...api_name
    ...requests
    ...unread
    unanswered count of these, without a response
    ...bytes
    ...latency
    """,
    "Clients by API",
    "Clients by API",
    columns=(
        _CLIENT,
        _API,
        *_COUNTS,
        DeclaredColumn("unanswered", "unanswered", rank=3, style="alarm", when="any"),
        _BYTES,
        _P50._replace(rank=1),
        _P99,
        _MAX._replace(rank=2),
    ),
)
_INVENTORY = DeclaredTable(
    "inventory",
    "each client with what it speaks, most requests first; then brokers and controllers",
    f"""
    traffic text(client|controller|replica) client; replica or controller: a broker or a controller
    ...client_id
    client_ip text its IP address
    principal text? user that it authenticated as; null: none was seen
    software text? name and version of its software; null: it does not send them
    ...requests
    versions texts each API and version with the number of requests, as in "Fetch v13: 120", \
        sorted, the first {MOST_VERSIONS}
    more_versions bool whether there are more
    refused texts the same, of requests answered with UNSUPPORTED_VERSION
    more_refused bool whether there are more
    kafka_4_refuses texts APIs and versions that Kafka 4.0 does not accept, as in "Fetch v3"
    more_kafka_4_refuses bool whether there are more
    """,
    "Every client, and what it speaks",
    "Every client",
    columns=(
        _CLIENT._replace(least=12),
        DeclaredColumn("from", "client_ip"),
        DeclaredColumn("is", "traffic", rank=4, when="several kinds"),
        DeclaredColumn("user", "principal", least=6, rank=3, when="known"),
        DeclaredColumn("software", "software", least=12, rank=2),
        _REQUESTS,
        _ERRORS,
        DeclaredColumn("refused", "refused", least=12, rank=1, when="any"),
        DeclaredColumn("refused by Kafka 4", "kafka_4_refuses", least=12, when="any"),
        DeclaredColumn("speaks", "versions", least=16, rank=1),
    ),
)
_CLIENT_ERRORS = DeclaredTable(
    "client_errors",
    "error codes by client id, most frequent first",
    """
    client_id text? client id in the request; null: it has none, or it is unknown
    ...api_name
    error_code integer the error code, not 0
    error_name text its name in Kafka
    ...codes
    """,
    "Errors by client",
    most=_FEW,
    columns=(
        _CLIENT,
        DeclaredColumn("error", "error_name", "error", least=24, style="red"),
        _API,
        DeclaredColumn("count", "count"),
        _FIRST,
        _LAST,
    ),
)
_TOPIC_LATENCY = DeclaredTable(
    "topic_latency",
    "latency by topic and API, most requests first",
    f"""
    ...topic
    ...topic_id
    api_name text the API that produces or fetches
    latency_ns @latency_summary {_TO_FIRST_BYTE} requests that name the topic and did not wait on \
        purpose
    """,
    "Latency by topic",
    "Latency by topic",
    _FEW,
    columns=(
        _TOPIC,
        _API,
        DeclaredColumn("answered", "latency_ns.count"),
        _P50,
        _P90._replace(rank=1),
        _P99,
        _MAX,
    ),
)
_PARTITIONS = DeclaredTable(
    "partitions",
    "by partition, most bytes first; without refused records",
    """
    ...topic
    ...topic_id
    partition integer index of the partition
    produce_requests count requests that produced to it
    ...produced_records
    produced_bytes count[B] bytes of these records
    fetch_requests count requests that fetched from it
    ...fetched_records
    fetched_bytes count[B] bytes of these records
    high_watermark integer? the highest in any response; null: no response has one
    """,
    "Busiest partitions",
    "Partitions",
    _FEW,
    columns=(
        _TOPIC,
        DeclaredColumn("partition", "partition"),
        DeclaredColumn("produces", "produce_requests", rank=1),
        DeclaredColumn("records in", "produced_records"),
        DeclaredColumn("bytes in", "produced_bytes"),
        DeclaredColumn("fetches", "fetch_requests", rank=1),
        DeclaredColumn("records out", "fetched_records"),
        DeclaredColumn("bytes out", "fetched_bytes"),
        DeclaredColumn("high watermark", "high_watermark", rank=2),
    ),
)
_CODECS = DeclaredTable(
    "codecs",
    "batches of producers, by client and codec, most bytes first",
    """
    ...client_id
    codec text none, gzip, snappy, lz4, zstd, or mixed
    requests count requests with such batches
    batches count partitions of these requests, each counted as one batch
    records count? records in them; null: no header has the number
    bytes count[B]? bytes of records in them, as sent; null: unknown
    bytes_p50 count[B]? median of the bytes of one partition; null: unknown
    records_p50 count? median of the records of one partition; null: unknown
    """,
    "What producers send: codecs and batch sizes",
    "What producers send: codecs and batch sizes",
    _FEW,
    columns=(
        _CLIENT,
        DeclaredColumn("codec", "codec", least=6),
        _REQUESTS,
        DeclaredColumn("batches", "batches"),
        DeclaredColumn("records", "records"),
        DeclaredColumn("bytes", "bytes"),
        DeclaredColumn("records p50", "records_p50", rank=1),
        DeclaredColumn("bytes p50", "bytes_p50"),
    ),
)
_TLS = DeclaredTable(
    "tls",
    "what TLS connections agreed on, by broker, version and suite",
    """
    broker text address and port of the broker, or another server
    tls_version text? that the broker chose; null: not seen
    tls_cipher_suite text? that the broker chose, by IANA's name; null: not seen
    connections count TLS connections
    decrypted count of these, decrypted, in part at least
    failed count of these, that failed
    resumed count? of these, that resumed a session; null: not seen on any
    mutual count? of these, on which the client sent a certificate; null: not seen on any: \
        TLS 1.3 encrypts it
    handshake_p50_ns integer[ns]? median time from the ClientHello to the last Finished; \
        null: not seen
    client_bytes count[B] TCP payload of the clients, every copy counted
    broker_bytes count[B] TCP payload of the broker, every copy counted
    estimated_requests count? an estimate: how often data of the client was followed by data \
        of the broker; null: there is no telling which end is the client
    estimated_response_time_p50_ns integer[ns]? an estimate: median over connections of their \
        median time from the former to the latter; null: there was no such data
    """,
    "TLS",
    columns=(
        DeclaredColumn("broker", "broker", least=20, style="bold"),
        DeclaredColumn("version", "tls_version", least=7),
        DeclaredColumn("cipher suite", "tls_cipher_suite", least=20),
        DeclaredColumn("connections", "connections"),
        DeclaredColumn("decrypted", "decrypted"),
        DeclaredColumn("failed", "failed", style="alarm"),
        DeclaredColumn("resumed", "resumed", rank=2),
        DeclaredColumn("mutual", "mutual", rank=2),
        DeclaredColumn("handshake p50", "handshake_p50_ns", rank=1),
        DeclaredColumn("requests (est.)", "estimated_requests", rank=3),
        DeclaredColumn("response time p50 (est.)", "estimated_response_time_p50_ns", rank=4),
    ),
)
_TLS_CERTIFICATES = DeclaredTable(
    "tls_certificates",
    "certificates seen in handshakes, first to expire first",
    """
    sent_by text(broker|client) whose it is
    subject text the name in it
    issuer text who signed it
    not_after_ns time? until when it holds; null: later than 2262
    connections count connections on which it was seen
    expired bool? whether it had expired before the last of them; null: later than 2262
    """,
    "TLS certificates",
    columns=(
        DeclaredColumn("certificate of", "sent_by", least=6),
        DeclaredColumn("subject", "subject", least=16, style="bold"),
        DeclaredColumn("issuer", "issuer", least=12),
        DeclaredColumn("valid until", "not_after_ns", "valid until", style="expired"),
        DeclaredColumn("connections", "connections"),
    ),
)
_NOT_THERE = "there is no request, or no response"
_SLOWEST = DeclaredTable(
    "slowest",
    "the slowest requests that did not wait on purpose, up to 10, or more with --limit",
    f"""
    capture text the input as given
    connection text CLIENT_IP:PORT>BROKER_IP:PORT
    connection_number count 1 for the first TCP connection on these addresses
    ...client_id
    api_key integer? key of the API; null: unknown
    ...api_name
    api_version integer? version of the API; null: unknown
    correlation_id integer? pairs the response with the request; null: kafka-0.7 has none
    latency_ns integer[ns] from the request's last byte to the response's first; negative if the \
        response was captured first
    total_time_ns integer[ns]? from the request's first byte to the response's last; null: not \
        all was captured
    request_start_ns time? time of the request's first byte; null: {_NOT_THERE}
    request_end_ns time? time of the request's last byte; null: {_NOT_THERE}
    response_start_ns time? time of the response's first byte; null: {_NOT_THERE}
    response_end_ns time? time of the response's last byte; null: it was not captured
    request_packet count? number of its first packet in the capture, from 1; null: unknown
    response_packet count? number of its first packet in the capture, from 1; null: unknown
    request_bytes count[B]? with the size prefix; null: unknown
    response_bytes count[B]? with the size prefix; null: unknown
    capture_point column
    request_send_ns column
    broker_network_ns column
    retransmission_wait_ns column
    pipeline_wait_ns column
    broker_time_ns column
    response_send_ns column
    client_network_ns column
    retransmitted_packets column
    zero_windows column
    waited_ns column
    throttle_time_ms integer[ms]? throttle time in the response; null: the response has none
    status text as in rows of requests
    error_name text? of the first error code; NONE for 0; null: no response could be read
    topics texts its topics, or their ids, the first 3, sorted
    more_topics bool whether there are more
    """,
    "Slowest requests (long polls excluded)",
    columns=(
        DeclaredColumn("latency", "latency_ns", style="bold"),
        DeclaredColumn("mostly", "total_time_ns", "largest part"),
        DeclaredColumn("and", "total_time_ns", "other parts", least=12, rank=4),
        DeclaredColumn("API", "api_name", "api and version", least=12),
        _CLIENT._replace(least=12, style=""),
        DeclaredColumn("topics", "topics", least=10, rank=2),
        DeclaredColumn("status", "status", "status", least=10, rank=1),
        DeclaredColumn("at", "request_start_ns", rank=3),
        DeclaredColumn("packets", "request_packet", "packets"),
        DeclaredColumn("in file", "capture", least=12, when="files"),
        DeclaredColumn("connection", "connection", least=20, rank=5),
    ),
)

TABLES = {
    table.name: table
    for table in (
        *(_APIS, _ERROR_CODES, _CLIENTS, _INVENTORY, _TOPICS, _GROUPS, _BROKERS, _CLIENT_APIS),
        _CLIENT_ERRORS,
        *(_TOPIC_LATENCY, _PARTITIONS, _CODECS, _LATENCY_PARTS, _TLS, _TLS_CERTIFICATES),
        *(_LAG, _FLOWS, _CHANGES, _SLOWEST),
    )
}
"""The tables in the order in which a report as JSON has them."""

_WORST_TIMES = DeclaredTable(
    "worst_times",
    "the spans of time with the highest figure",
    """
    start_ns time beginning of the span
    requests count requests that began
    errors count responses with an error that began
    request_bytes count[B] bytes of requests that began
    response_bytes count[B] bytes of responses that began
    p50 integer[ns]? median of the latency
    p90 integer[ns]? 90th percentile of the latency
    p99 integer[ns]? 99th percentile of the latency
    max integer[ns]? longest latency
    """,
    most=_FEW,
    columns=(
        DeclaredColumn("from", "start_ns"),
        _REQUESTS,
        _ERRORS,
        _BYTES,
        *(DeclaredColumn(name, name) for name in ("p50", "p90", "p99", "max")),
    ),
)
_VERSIONS = _APIS._replace(
    name="versions",
    title="Versions in use",
    sorted_title="",
    most=_SOME,
    columns=(
        DeclaredColumn("API", "api_name", "api", least=20, style="bold"),
        DeclaredColumn("requests by version", "versions", "versions", least=20),
    ),
)
BEFORE_CHARTS = (
    *(_APIS, _LATENCY_PARTS, _ERROR_CODES, _CLIENT_ERRORS, _CLIENTS, _INVENTORY, _CLIENT_APIS),
    _TOPICS,
    *(_TOPIC_LATENCY, _PARTITIONS, _GROUPS, _LAG, _FLOW_MAP, _BROKERS, _TLS, _TLS_CERTIFICATES),
)
AFTER_CHARTS = (_WORST_TIMES, _CHANGES, _VERSIONS, _CODECS, _SLOWEST)
"""The tables for people, in the order in which they see them."""
OVER_TIME = "over_time"
"""The section with the charts."""
SECTIONS = (
    *(table.name for table in BEFORE_CHARTS),
    OVER_TIME,
    *(table.name for table in AFTER_CHARTS),
)
"""The sections of a report for people, in order. ``--sections`` names them."""
MOST_SECTIONS = 5
"""Number of sections that a terminal shows without ``--sections``."""
USUAL_SECTIONS = ("apis", "errors", "clients", "topics", "latency_parts", *SECTIONS)
"""The sections in the order in which they matter where nothing was found; some are named twice."""
SECTIONS_BY_CONCERN = {
    "error_name": ("errors",),
    "group_id": ("groups",),
    "broker": ("brokers",),
    "topic": ("topics",),
    "client_id": ("clients",),
    "client_ip": ("clients",),
    "api_name": ("apis",),
}
"""The sections that matter for a finding, by what it concerns; its query may name others."""

# -- what values are ------------------------------------------------------------------------------

_NO_LATENCIES = "count is 0 or null"
LATENCY_SUMMARY = fields_of(
    f"""
latency_summary object a summary of durations, exact if there are few; see \
        sql/tables/quantiles.sql. A duration is negative if the response was captured before the \
        request
    count count? durations; null: not computed, for {_OTHERS}
    min integer[ns]? the shortest; null: {_NO_LATENCIES}
    p50 integer[ns]? the median, by nearest rank; null: {_NO_LATENCIES}
    p90 integer[ns]? the 90th percentile; null: {_NO_LATENCIES}
    p99 integer[ns]? the 99th percentile; null: {_NO_LATENCIES}
    max integer[ns]? the longest; null: {_NO_LATENCIES}
    mean integer[ns]? the mean, rounded down; null: {_NO_LATENCIES}
"""
)[0]
