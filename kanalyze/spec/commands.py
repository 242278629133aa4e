"""The commands: what each is for, its options, and its examples.

In: nothing. Out: :data:`COMMANDS`. The parser, the help, the completion of shells, the manual page
and the reference are made from these.

Options are groups: what each means, by its spelling (:class:`~kanalyze.spec.options.Option`), in
the order of the help. How the text of a value is parsed depends on the name of the value, such as
SIZE (``kanalyze/cli/arguments.py``).
"""

from __future__ import annotations

from kanalyze.spec.filters import group_of
from kanalyze.spec.options import SORTS, Option

TYPE_CHECKING = False
if TYPE_CHECKING:  # see kanalyze/cli/interruption.py
    from collections.abc import Mapping
    from typing import Any, TypeAlias

    Group: TypeAlias = Mapping[str, str]

EXAMPLES = """\
examples:
  kanalyze report broker.pcap
  kanalyze report --api Produce --errors broker.pcap
  kanalyze requests --slower-than 10ms broker.pcap
  kanalyze requests -o requests.parquet captures/
  tcpdump -i any -w - port 9092 | kanalyze report -
"""

_REPORT_EXAMPLES = """\
examples:
  kanalyze report broker.pcap
  kanalyze report --json report.json captures/
  kanalyze report --html report.html captures/
  kanalyze report --sort p99 --limit 20 -o report.md captures/
  kanalyze report --client-ip 10.1.0.0/16 --since 2026-01-31T09:30:00Z *.pcapng
"""

_REQUESTS_EXAMPLES = """\
examples:
  kanalyze requests --errors broker.pcap
  kanalyze requests --api Fetch --slower-than 10ms broker.pcap
  kanalyze requests -o requests.parquet captures/
  kanalyze requests --format jsonl broker.pcap | jq .client_id
  kanalyze requests --sort latency_ns --limit 20 broker.pcap
  kanalyze requests --columns client_id,api_name,latency_ns --format csv broker.pcap
"""

_RECORDS_EXAMPLES = """\
examples:
  kanalyze records --topic orders broker.pcap
  kanalyze records --api Fetch --values broker.pcap
  kanalyze records --values --format jsonl broker.pcap | jq -r .value
  kanalyze records --search order-4711 captures/
  kanalyze records --values --schemas schemas/ broker.pcap
  kanalyze records --columns topic,partition,offset,delay_ns --api Fetch --format csv broker.pcap
  kanalyze records -o records.parquet captures/
"""

_DECODE_EXAMPLES = """\
examples:
  kanalyze decode broker.pcap | jq 'select(.status == "error")'
  kanalyze decode --format text --api JoinGroup broker.pcap
  kanalyze decode --format text --packet 4711 broker.pcap
  kanalyze decode --format text --all --client-id 'billing-*' -o billing.txt broker.pcap
"""

_CONNECTIONS_EXAMPLES = """\
examples:
  kanalyze connections broker.pcap
  kanalyze connections --client-ip 10.1.0.0/16 broker.pcap
  kanalyze connections -o connections.parquet captures/

The columns have two round-trip times: from the capture point to the broker and back, and to the
client and back. If the capture was made at one end, that end's time is near 0.
"""

_ANOMALIES_EXAMPLES = """\
examples:
  kanalyze anomalies broker.pcap
  kanalyze anomalies --kind lost_bytes --kind not_in_sync broker.pcap
  kanalyze anomalies --format jsonl captures/ | jq -r .kind | sort | uniq -c
"""

_SAVE_EXAMPLES = """\
requests, connections, anomalies, report, compare, flows and sql read the file in place of the
captures, with the same result; records, decode and extract need the captures. It is a DuckDB
database, which DuckDB 1.1 and later open too.

examples:
  kanalyze save -o before.duckdb captures/
  kanalyze report before.duckdb
  kanalyze requests --errors --client-id 'billing-*' before.duckdb
  kanalyze sql before.duckdb "SELECT api_name, max(latency_ns) FROM requests GROUP BY ALL"
"""

_SQL_EXAMPLES = """\
The tables are requests, connections, anomalies, groups, metadata, changes, client_metrics,
records and capture_quality; the views partitions and errors have one line for each entry of
those lists of requests, flows sums them up by client and topic, lag has how far consumer groups
are behind, and replication what brokers copy from each other. SQL is DuckDB's. Without a query,
on a terminal, the command reads the captures once and asks for queries.

examples:
  kanalyze sql broker.pcap
  kanalyze sql broker.pcap "SELECT client_id, count(*) FROM requests GROUP BY ALL"
  kanalyze sql --list
  kanalyze sql --tables
  kanalyze sql --query rebalances captures/
  kanalyze sql --query latency_by_client /tables/kafka    # what kanalyze batch wrote
  kanalyze sql -o slow.parquet broker.pcap "FROM requests WHERE latency_ns > 1e9"
"""

_FLOWS_EXAMPLES = """\
A line has the requests of one client about one topic in one direction, at all brokers or, with
--by, at each. Bytes on the wire are those of all requests and responses: a request with several
topics is divided by their bytes of records. PRICES.csv has columns of --by, with globs, and per_gb
(10^9 bytes on the wire) or per_million_requests; the first line that matches a flow counts.

examples:
  kanalyze flows broker.pcap
  kanalyze flows --by client_id,group_id,topic,broker_ip captures/
  kanalyze flows --names pods.json --by client_app,topic,direction captures/
  kanalyze flows --by principal --price PRICES.csv -o chargeback.csv captures/
"""

_COMPARE_EXAMPLES = """\
A is before, B is after. Each is a capture, a folder of captures, a glob in quotes, a file that save
wrote, or a file that report --json wrote. Latencies, shares of failed requests and rates are
compared: by API, and by client, topic and broker within an API. Findings are compared too: which of
them only B has, and which only A. Differences between reports are not tested for chance, because a
report does not say how its counts vary over time.

A difference is listed if it reaches --at-least and --least-ms (or --least-percent) and is unlikely
to be chance. To test for chance, both captures are divided into slices of time of the same length
(32 slices for the shorter capture), and the slices are assigned to A and B at random, 1,999 times.
Fewer than 1 in 20 of these assignments may have a difference as large anywhere. So a burst within
one slice is not listed. A difference that lasts as long as the captures is listed, whatever its
cause. The test needs at least 8 seconds with requests on each side, 30 requests for a median or
errors, and 1,000 requests for a p99. Latencies do not include requests that waited on purpose, and
are exact to 0.25 %. UUIDs in client ids are replaced by *.

exit status: 0; 1 if --fail-on found something; 2 for a wrong argument or input; 3 if --fail-on
found nothing because there are too few requests, or too short a time, to judge

examples:
  kanalyze compare before.pcap after.pcap
  kanalyze compare 'monday/*.pcap' 'tuesday/*.pcap' --api Produce --since 09:00 --until 10:00
  kanalyze compare a.pcap b.pcap --fail-on slower,errors --at-least 1.5 --json difference.json
"""

_EXTRACT_EXAMPLES = """\
Packets are copied unchanged and in order. They contain records and, if logins are among them, SASL
tokens and passwords; kanalyze anonymize blanks both. Packets of requests and responses get a
comment, which Wireshark shows: API, version, correlation id, client, status, latency. Captures are
read twice.

examples:
  kanalyze extract --errors -o errors.pcapng broker.pcap
  kanalyze extract --api Produce --slower-than 500ms --around 2s -o slow.pcapng captures/
  kanalyze extract --client-id billing --whole-connections -o billing.pcapng broker.pcap
"""

_ANONYMIZE_EXAMPLES = """\
Ids, addresses, and names of topics, clients, groups, hosts, users and software become stand-ins of
the same length. Records, tokens, configurations and error messages are blanked, and so are IP
fragments, messages of Kafka 0.7, and everything that is not plaintext Kafka. Packets inside tunnels
are anonymized too. Times, lengths, versions and error codes stay, TLS alerts in the clear, and the
names of Kafka's internal topics, such as __consumer_offsets; checksums that were right stay right:
only names differ in a report. Anyone who has the key can compute the stand-in of a name, so keep it
secret. Captures are read twice, then FILE is compared with them: if connections, requests or
anomalies differ by more than names, a line says which, and the exit status is 1.

examples:
  kanalyze anonymize -o shared.pcapng broker.pcap
  kanalyze anonymize --strip-records --key @key.txt -o shared.pcapng captures/
"""

_PROTOCOL_EXAMPLES = """\
examples:
  kanalyze protocol
  kanalyze protocol Fetch
  kanalyze protocol Fetch 12
  kanalyze protocol errors
  kanalyze protocol 18 --json
"""

_LIVE_EXAMPLES = """\
examples:
  kanalyze live -i eth0 --port 9092
  kanalyze live -i eth0 --write rows/ --save slow.pcapng --save-slower-than 500ms
  ssh broker tcpdump -i any -U -s 0 -w - port 9092 | kanalyze live -

Without a terminal, or with --format, lines of JSON replace the view: rates and findings of the
last seconds (jsonl), or a row for each request (rows). Ctrl-c, or q in the view, ends the run; the
view ends with a report. The run also ends if its terminal is closed, unless nohup started it.
SIGHUP starts new files.
"""

_BATCH_EXAMPLES = """\
examples:
  kanalyze batch captures/ --out archive/
  kanalyze batch captures/ --out archive/ --checkpoint state/
  kanalyze batch captures/ --out archive/ --checkpoint state/ --follow
  kanalyze batch captures/ --out archive/ --engine process
  kanalyze batch s3://bucket/captures/ --out s3a://bucket/archive --master yarn

The folder of --out gets requests/ (Parquet, by day and hour in UTC), anomalies/
and report.json. A run is written as a whole or not at all; if it is killed, the
next run completes it. Without --checkpoint, a run replaces the output of the
previous run. With --checkpoint, the archive grows: each run reads the new
captures, in the order in which they were made, and continues the connections
that the previous run left open; --finish closes them. Only one run at a time may
write to a folder.
"""

_MCP_EXAMPLES = """\
An assistant that speaks the Model Context Protocol starts this command, and asks on its standard
input. It can list captures, and ask for reports, findings, requests, decoded messages and SQL. It
can write nothing, and sees no record, key, value or header, and no user's name (--with-principals).
Tables are made once for each choice of captures, in the folder for temporary files.

examples:
  kanalyze mcp captures/
  kanalyze mcp --anonymous --max-rows 50 captures/ more/
"""

_COMPLETION_EXAMPLES = """\
examples:
  eval "$(kanalyze completion bash)"        in ~/.bashrc
  kanalyze completion zsh > ~/.zfunc/_kanalyze        with fpath+=~/.zfunc before compinit
  kanalyze completion fish > ~/.config/fish/completions/kanalyze.fish
"""


# -- options of several commands ------------------------------------------------------------------

FAIL_ON = ("findings", "slower", "errors", "new", "gone", "any")

_OUTPUT_FILE: Group = {"-o, --output FILE": "output file (default: standard output)"}
_COLUMNS: Group = {
    "--columns A,B,...": "columns to write, in this order (default: all); for csv and jsonl also "
    "times as ISO 8601, such as request_start_time beside request_start_ns"
}
_OUTPUT: Group = {
    **_OUTPUT_FILE,
    "--format {table,csv,jsonl,parquet}": "default: by the ending of FILE; table on standard "
    "output",
    **_COLUMNS,
}
_CAPTURE_OUTPUT: Group = {
    "-o, --output FILE": "the capture to write, a pcapng file",
    "--force": "replace FILE even if it is a capture",
}
_THRESHOLD: Group = {
    "--threshold NAME=NUMBER ...": "set a threshold of a finding, such as "
    "throttled.least_requests=10",
}
_OF_FINDING: Group = {
    "--finding NAME ...": "only the rows that a finding is about: its number in kanalyze report "
    "with the same filters, or its name, such as unanswered; unanswered:2 is the second of them",
    **_THRESHOLD,
}
_FINDINGS: Group = {
    **_THRESHOLD,
    "--queries DIR": "a folder with more findings to search for, NAME.sql",
}
_NAMES: Group = {
    "--names FILE ...": "names of addresses: a hosts file; CSV (address,name,app,zone,since,until "
    "in its first line); the output of kubectl get pods,services,nodes -A -o json; or a pcapng "
    "file. Rows get the columns client_name, client_app, client_zone, broker_name, broker_id, "
    "broker_zone, and reports have names beside addresses",
}
_REPORT: Group = {
    "--sections NAME,...": "for text and md: show these sections, such as apis,over_time, or all "
    "(default: for text those that matter for what was found; the report names the others)",
    "--brief": "for text: at most ten lines",
    f"--sort {{{','.join(SORTS)}}}": "for text and md: sort the lines of tables "
    "by this figure, in descending order; p50 and so on are latencies (default: the order in JSON)",
    "--limit LINES": "for text and md: show at most so many lines of each table, 0 for all "
    "(default: 5 to 40, depending on the table). JSON has all lines, except for the slowest "
    "requests: 10, or so many if that is more",
    "--json FILE": "also write the report as JSON; if FILE is -, write only JSON, to standard "
    "output",
    "--html FILE": "also write the report as an HTML page that works offline",
    **_FINDINGS,
}
_CAPTURES: Group = {
    "CAPTURE ...": "a pcap or pcapng file, compressed or not, a folder, a glob, or a URL of any of "
    "these; several are read as one capture, in the order of time"
}
_CAPTURES_OR_PIPE: Group = {
    "CAPTURE ...": "a pcap or pcapng file, compressed or not, a folder, a glob, a URL of any of "
    "these, or - for standard input; several are read as one capture, in the order of time"
}
_SEND_SPANS = (
    "send spans to this OpenTelemetry collector, such as http://localhost:4318, with the headers "
    "in the variable OTEL_EXPORTER_OTLP_HEADERS"
)
_NO_PROGRESS: Group = {"--no-progress": "do not show progress on standard error"}
_JOBS: Group = {
    "--jobs N": "number of processes for large files (default: number of cores); the result is the "
    "same"
}
_FILES: Group = {**_CAPTURES, **_NO_PROGRESS}
_INPUT: Group = {**_CAPTURES_OR_PIPE, **_NO_PROGRESS}
_DEFINITIONS: Group = {
    "--definitions DIR": "a folder of message definitions (*.json in Kafka's format) to add to the "
    "built-in ones, for example of another release, a fork or a vendor"
}
_KAFKA: Group = {
    **group_of("port"),
    "--topic-ids FILE": "names of topics by id, for topics whose name is not in the capture: lines "
    "of 'ID NAME', or a JSON object",
    **_DEFINITIONS,
}
_KEY_LOG = (
    "decrypt TLS with the secrets in this file, in the format of SSLKEYLOGFILE; by default the "
    "file that this variable names"
)
_LIMITS: Group = {
    "--max-memory SIZE": "memory for open connections, such as 256M or 2G (default: 1G); dropped "
    "data is reported as an anomaly"
}
_SETTINGS: Mapping[str, Group] = {
    "names": _NAMES,
    "Kafka": _KAFKA,
    "TLS": {"--keylog FILE ...": _KEY_LOG},
    "limits": _LIMITS,
}
_FILTERS = "filters (all must match; repeated values are alternatives)"
_FILTERS_OF_REQUESTS = (
    "api",
    "client_id",
    "principal",
    "topic",
    "partition",
    "group",
    "connection",
    "packet",
    "correlation_id",
    "anomaly",
    "status",
    "error",
    "errors",
)
_OF_ENDS = ("client_ip", "client_app", "zone", "broker")
_REQUEST_FILTERS: Group = group_of(*_FILTERS_OF_REQUESTS, "slower_than", *_OF_ENDS)
_END_FILTERS = (*_OF_ENDS, "connection", "since", "until")
_LOCAL = "that of this machine"


def _times(default: str, and_of: str = ", and of --since and --until without one") -> Group:
    return {
        "--tz NAME": f"time zone of the times shown to people{and_of}, such as Europe/Berlin "
        f"(default: {default})",
        "--utc": "the same as --tz UTC",
    }


_TIMES: Mapping[str, Group] = {"times": _times(_LOCAL)}
_READING: Mapping[str, Group] = {
    **_SETTINGS,
    _FILTERS: {**_REQUEST_FILTERS, **group_of("since", "until")},
    **_TIMES,
}


def _with_secrets(file: str) -> Group:
    text = f"add the TLS secrets of decrypted connections to {file}: everyone who has the file can "
    return {"--with-secrets": f"{text}read all of it, passwords included"}


# -- commands -------------------------------------------------------------------------------------


class Command:
    """A command."""

    def __init__(
        self,
        text: str,
        examples: str,
        options: Group,
        groups: Mapping[str, Group] | None = None,
        *,
        defaults: Mapping[str, Any] | None = None,
        required: str = "",
        exclusive: tuple[str, ...] = (),
        usage: str | None = None,
    ) -> None:
        """Declare a command.

        Args:
            text: what it does.
            examples: the text below its help.
            options: arguments, and options without a title.
            groups: more options by the title of their group.
            defaults: values of options that are not given, other than nothing.
            required: the name of an option that must be given.
            exclusive: options of which only one may be given.
            usage: the arguments in its usage; None for those that are required.
        """
        self.text = text
        self.examples = examples
        self._groups = {"": options, **(groups or {})}
        self.defaults = {"output": "-", **(defaults or {})}
        self.required = required
        self.exclusive = exclusive
        self.usage = usage

    @property
    def groups(self) -> dict[str, list[Option]]:
        """Options by the title of their group; those without a title first."""
        return {
            title: [Option(spelling, text) for spelling, text in group.items()]
            for title, group in self._groups.items()
        }

    @property
    def options(self) -> list[Option]:
        """All options and arguments."""
        return [option for group in self.groups.values() for option in group]


COMMANDS = {
    "report": Command(
        "summarize captures: findings, then tables by API, client, topic and so on",
        _REPORT_EXAMPLES,
        {
            **_OUTPUT_FILE,
            "--format {text,json,md,html}": "default: by the ending of FILE; text on standard "
            "output",
            **_REPORT,
            **_INPUT,
            **_JOBS,
        },
        _READING,
    ),
    "requests": Command(
        "write one row per request",
        _REQUESTS_EXAMPLES,
        {
            **_OUTPUT_FILE,
            "--format {table,csv,jsonl,parquet,perfetto,otlp}": "default: by the ending of FILE; "
            "table on standard output; perfetto: a trace for ui.perfetto.dev and chrome://tracing; "
            "otlp: spans of OpenTelemetry, as lines of JSON",
            **_COLUMNS,
            "--sort COLUMN": "sort rows by this column: largest numbers first, texts in "
            "alphabetical order; needs --limit",
            "--limit N": "write at most N rows",
            "--wireshark": "instead of rows, write the display filter that shows their packets in "
            "Wireshark; one filter for each capture",
            "--otlp URL": f"instead of writing rows, {_SEND_SPANS}",
            "--traceparent": "with spans: link them to those that traceparent headers of their "
            "records name; reads all records",
            **_OF_FINDING,
            **_INPUT,
            **_JOBS,
        },
        _READING,
    ),
    "records": Command(
        "write one row per record produced or fetched",
        _RECORDS_EXAMPLES,
        {
            "--values": "also show keys, values and headers; bytes that are not text as base64",
            "--max-records N": "read at most N records of a batch; a row with the problem "
            "too_many_records replaces the others (default: 4 per byte of the batch on the wire, "
            "at least 1000; no valid batch has more)",
            "--schemas DIR": "a folder of schemas, as the REST interface of a schema registry has "
            "them: JSON of /schemas, ID.avsc, ID.proto; names subjects and versions and, with "
            "--values, writes Avro, Protobuf and JSON by them",
            "--search BYTES": "only records with this text, or these bytes (hex:00ff), in the key, "
            "the value or a header's value; the column found_in says where. Rows of unreadable "
            "batches are kept",
            "--top-keys N": "with --values: instead of records, the N most frequent keys of each "
            "topic, with the number of their records; beyond 100,000 keys a range that it is in",
            **_OUTPUT,
            **_OF_FINDING,
            **_INPUT,
        },
        _READING,
    ),
    "decode": Command(
        "write every field of every message",
        _DECODE_EXAMPLES,
        {
            **_OUTPUT_FILE,
            "--format {jsonl,text}": "jsonl: an object per request, as in the broker's request log "
            "(KIP-673); text: a tree with byte offsets; default: by the ending of FILE; jsonl on "
            "standard output",
            "--all": "with text: do not shorten arrays, texts or bytes",
            "--limit N": "write at most N requests, with their responses",
            **_OF_FINDING,
            **_INPUT,
        },
        _READING,
    ),
    "connections": Command(
        "write one row per TCP connection",
        _CONNECTIONS_EXAMPLES,
        {**_OUTPUT, **_OF_FINDING, **_INPUT},
        {
            **_SETTINGS,
            _FILTERS: {
                "--client-id GLOB ...": "first client id, such as 'billing-*'",
                **group_of("principal", *_END_FILTERS, rows="connections open"),
            },
            **_TIMES,
        },
    ),
    "anomalies": Command(
        "write one row per anomaly: what is missing or wrong, and where",
        _ANOMALIES_EXAMPLES,
        {**_OUTPUT, **_INPUT},
        {
            **_SETTINGS,
            _FILTERS: {
                "--kind NAME ...": "kind, such as lost_bytes",
                **group_of(*_END_FILTERS, rows="anomalies"),
            },
            **_TIMES,
        },
    ),
    "save": Command(
        "save the tables of captures to a file, to be read again",
        _SAVE_EXAMPLES,
        # No workers: they would change the order of connections and anomalies.
        {
            "-o, --output FILE": "the database file",
            "--records": "also a line for each record, without key, value and headers: as many "
            "lines as there are records",
            **_INPUT,
        },
        _READING,
        required="output",
    ),
    "sql": Command(
        "run an SQL query over the tables of captures",
        _SQL_EXAMPLES,
        {
            "--query NAME": "run this query, one of --list",
            "--list": "list the queries and what they answer",
            "--tables": "list the tables, their columns and their meaning",
            "--param NAME=VALUE ...": "value of a parameter, written $NAME in SQL",
            "--queries DIR": "a folder with more queries, NAME.sql",
            **_OUTPUT_FILE,
            "--format {table,csv,jsonl,parquet}": "default: from the ending of FILE; table on "
            "standard output",
            "[CAPTURE ...]": f"{_CAPTURES_OR_PIPE['CAPTURE ...']}; then the query, if --query is "
            "not given; on a terminal a prompt asks for queries",
            **_NO_PROGRESS,
            **_JOBS,
        },
        _READING,
    ),
    "flows": Command(
        "write who sends how much to whom, by client, group, topic and direction",
        _FLOWS_EXAMPLES,
        {
            "--by A,B,...": "columns to sum by: traffic, direction, client_id, client_ip, "
            "principal, group_id, client_software_name, client_software_version, topic, topic_id, "
            "broker_ip, broker_port (default: traffic,client_id,group_id,direction,topic)",
            "--price FILE": "prices, as CSV: adds the column cost",
            **_OUTPUT_FILE,
            "--format {table,csv,jsonl,parquet}": "default: from the ending of FILE; table on "
            "standard output",
            **_INPUT,
            **_JOBS,
        },
        _READING,
        defaults={"by": "traffic,client_id,group_id,direction,topic"},
    ),
    "compare": Command(
        "show what differs between two captures",
        _COMPARE_EXAMPLES,
        {
            "A": "before: a capture, a folder of captures, a glob, a saved file, or a report as "
            "JSON",
            "B": "after: the same",
            "--json FILE": "also write the comparison as JSON; if FILE is -, write only JSON, to "
            "standard output",
            "--format {text,json,md}": "format on standard output (default: text)",
            **_NO_PROGRESS,
            **_JOBS,
        },
        {
            "what to list": {
                "--at-least TIMES": "list differences of at least this factor: slower, faster, "
                "more or less frequent (default: 1.2)",
                "--least-ms MS": "and, for latencies, of at least this many milliseconds "
                "(default: 1)",
                "--least-percent PERCENT": "and, for errors, of at least this percentage of "
                "requests (default: 0.1)",
                "--fail-on WORDS": "exit with status 1 if there is any of these: "
                f"{', '.join(FAIL_ON)}; separate several by commas",
            },
            **_READING,
        },
        defaults={
            "format": "text",
            "at_least": 1.2,
            "least_ms": 1.0,
            "least_percent": 0.1,
            "fail_on": (),
        },
    ),
    "extract": Command(
        "write the packets of requests to a capture",
        _EXTRACT_EXAMPLES,
        {
            **_CAPTURE_OUTPUT,
            "--around TIME": "also the packets of the same connections up to this long before and "
            "after each request, such as 2s",
            **_OF_FINDING,
            "--with-handshake": "also the beginning of the connections: TCP and TLS handshakes, "
            "ApiVersions, SASL",
            "--whole-connections": "all packets of the connections that have selected requests",
            **_with_secrets("the file"),
            **_FILES,
            **_JOBS,
        },
        _READING,
        required="output",
        exclusive=("with_handshake", "whole_connections"),
    ),
    "anonymize": Command(
        "write captures without names, addresses and contents",
        _ANONYMIZE_EXAMPLES,
        {
            **_CAPTURE_OUTPUT,
            "--key TEXT": "a secret: captures with the same key have the same stand-ins; @FILE "
            "reads the key from a file, so that other users of the machine do not see it (default: "
            "a random key)",
            "--strip-records": "leave out records at the end of packets, as a snap length does: a "
            "smaller file with the same requests",
            "CAPTURE ...": "a pcap or pcapng file, compressed or not, a folder, a glob, or a URL "
            "of any of these; several become one capture, in the order of time",
            **_JOBS,
            **_NO_PROGRESS,
        },
        {"Kafka": {**group_of("port"), **_DEFINITIONS}, "limits": _LIMITS},
        required="output",
    ),
    "protocol": Command(
        "show the supported APIs, versions, fields and errors",
        _PROTOCOL_EXAMPLES,
        {
            "[API]": "the name or key of an API: show its fields in every version; errors: show "
            "the error codes; default: list all APIs",
            "[VERSION]": "only what this version of the API has, such as 12",
            "--json": "write JSON",
            **_DEFINITIONS,
        },
    ),
    "live": Command(
        "show the requests on an interface now",
        _LIVE_EXAMPLES,
        {
            "-i, --interface IFACE": "capture on this interface; on Linux any is all of them; - is "
            "standard input",
            "--list": "list the interfaces",
            "[-]": "read a capture from standard input",
        },
        {
            "packets": {
                "--port N ...": "only packets with this TCP port, which is treated as a broker's",
                "--host IP ...": "only packets with this address or network",
                "--filter TEXT": "only packets that match this tcpdump filter; needs libpcap",
                "--buffer SIZE": "the kernel's buffer for packets (default: 128M)",
            },
            "requests (all must match; repeated values are alternatives)": _REQUEST_FILTERS,
            "TLS": {
                "--keylog FILE ...": f"{_KEY_LOG}; the file may be created later, grow and be "
                "replaced"
            },
            "names": _NAMES,
            "Kafka, and limits": {
                "--topic-ids FILE": "names of topics by id: lines of 'ID NAME', or a JSON object",
                **_DEFINITIONS,
                "--max-memory SIZE": "memory for open connections (default: 1G)",
                "--duration SECONDS": "end after this time",
            },
            "output": {
                "--format {view,jsonl,rows}": "view: on the terminal; jsonl: a line of rates per "
                "interval; rows: a line per request (default: view on a terminal, else jsonl)",
                "--interval SECONDS": "the interval of --format jsonl (default: 1)",
                **_times(_LOCAL, ""),
                "--json FILE": "also write the report at the end as JSON",
                **_FINDINGS,
                "--metrics [HOST:]PORT": "serve metrics for Prometheus; only on this machine, "
                "unless HOST is given",
                "--metrics-host NAME ...": "also accept requests for metrics to this host name, "
                "besides HOST and the machine's own name",
                "--otlp URL": f"also {_SEND_SPANS}; and each minute the metrics of --metrics",
            },
            "files": {
                "--write DIR": "write rows to Parquet files in this folder",
                "--write-every SECONDS": "start a new file after this time (default: 300)",
                "--write-size SIZE": "start a new file at this size (default: 256M)",
                "--write-files N": "keep the newest N files (default: 288)",
                "--save FILE.pcapng": "save the packets of requests that --save-errors and "
                "--save-slower-than select (default: errors), at most 500 requests a second; TLS "
                "packets stay encrypted",
                **_with_secrets("the file of --save"),
                "--save-errors": "save requests answered with an error code",
                "--save-slower-than TIME": "save requests with a higher latency, such as 500ms",
                "--save-size SIZE": "start a new file at this size (default: 256M)",
                "--save-files N": "keep the newest N files (default: 8)",
            },
        },
        defaults={"buffer": 128 << 20},
        exclusive=("interface", "list", "pipe"),
        usage="(-i IFACE | - | --list)",
    ),
    "batch": Command(
        "write tables and a report of many captures, with Spark or without",
        _BATCH_EXAMPLES,
        {
            "--out PATH": "output folder, which all workers can reach, or a URL",
            "--table-format {parquet,delta,iceberg}": "delta, iceberg: after each run, also let "
            "tables of Delta Lake or Apache Iceberg have its files; in a folder of this machine",
            "--otlp URL": f"after each run, also {_SEND_SPANS}",
            "--format {text,json,md}": "format of the report on standard output (default: text)",
            **_REPORT,
            **_FILES,
        },
        {
            **{title: group for title, group in _READING.items() if title != "TLS"},
            "times": _times("UTC"),
            "TLS": {
                "--keylog PATH ...": "decrypt with the secrets of this file, folder or URL, which "
                "all workers can reach, in the format of SSLKEYLOGFILE; the variable itself is not "
                "read"
            },
            "archives that grow": {
                "--checkpoint DIR": "a folder or URL for the state that the next run continues "
                "from",
                "--settle SECONDS": "leave files that changed less than this time ago to the next "
                "run (default: 60)",
                "--follow [SECONDS]": "run again this long after each run, until SIGINT or SIGTERM "
                "(default: 60)",
                "--merge-small": "merge the small files of each hour of requests, once no late "
                "capture can undo the runs that wrote them",
                "--finish": "the last run: read all files, and close open connections",
                "--step-size SIZE": "commit more captures than this in several steps, so that a "
                "run that dies goes on after the last one (default: 4G per core)",
                "--replace": "begin again: replace all rows of the folder, also those of other "
                "captures or of another archive",
            },
            "engine": {
                "--engine {spark,process}": "what runs the tasks: Spark, or processes on this "
                "machine, which need no Java and start at once; the output is the same, and either "
                "continues what the other began (default: spark)",
                "--jobs N": "with --engine process: number of processes (default: number of cores)",
                "--master URL": "with Spark: local[*], spark://HOST:PORT, yarn, k8s://... "
                "(default: that of spark-submit, or all cores of this machine)",
                "--conf KEY=VALUE ...": "a setting of Spark",
                "--scratch PATH": "with Spark: a folder or URL that all workers can write, for "
                "what tasks send each other (default: below that of --out)",
                "--buckets N": "number of parts that connections are divided into (default: one "
                "per core where each task can read all captures; else one per 256M of captures, "
                "from 8 to 512); the first run of an archive decides",
                "--split-size SIZE": "several tasks may read a pcap file, in parts of at least "
                "this size (default: 64M)",
            },
        },
        defaults={
            "tz": "UTC",
            "settle": 60.0,
            "follow": 60.0,
            "engine": "spark",
            "split_size": 64 << 20,
            "table_format": "parquet",
        },
        required="out",
    ),
    "mcp": Command(
        "answer an assistant's questions about captures (Model Context Protocol)",
        _MCP_EXAMPLES,
        {
            "FOLDER ...": "folders with captures, in them and below",
            "--anonymous": "replace names and addresses by stand-ins first, as anonymize does",
            "--with-principals": "show the names of users that have logged in",
            **_NAMES,
            "--max-rows N": "lines of an answer (default: 200)",
            "--max-seconds N": "time for an answer (default: 60)",
        },
        defaults={"max_rows": 200, "max_seconds": 60},
    ),
    "completion": Command(
        "write the script that completes commands and options in a shell",
        _COMPLETION_EXAMPLES,
        {"SHELL{bash,zsh,fish}": "your shell"},
    ),
}
