"""The arguments of every command.

In: nothing. Out: an ``argparse`` parser. This module must not import anything slow, because
``--help`` must be fast.
"""

from __future__ import annotations

import argparse
import math
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

import kanalyze
from kanalyze.cli.hints import HelpFormatter, HintingParser, LazyCommand
from kanalyze.common.compiled import is_compiled
from kanalyze.common.texts import parse_size
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kanalyze.tables.records.search import RecordSearch

__all__ = ["parser"]

_DESCRIPTION = "Analyze the traffic between Kafka clients and brokers in packet captures."

_EPILOG = """\
examples:
  kanalyze report broker.pcap
  kanalyze report --api Produce --errors broker.pcap
  kanalyze requests --slower-than 10ms broker.pcap
  kanalyze requests -o requests.parquet captures/
  tcpdump -i any -w - port 9092 | kanalyze report -
"""

_REPORT_EPILOG = """\
examples:
  kanalyze report broker.pcap
  kanalyze report --json report.json captures/
  kanalyze report --html report.html captures/
  kanalyze report --sort p99 --limit 20 -o report.md captures/
  kanalyze report --client-ip 10.1.0.0/16 --since 2026-01-31T09:30:00Z *.pcapng
"""

_SQL_EPILOG = """\
The tables are requests, connections and anomalies; the views partitions and errors have one line
for each entry of those lists of requests. SQL is DuckDB's.

examples:
  kanalyze sql broker.pcap "SELECT client_id, count(*) FROM requests GROUP BY ALL"
  kanalyze sql --list
  kanalyze sql --tables
  kanalyze sql --query rebalances captures/
  kanalyze sql -o slow.parquet broker.pcap "FROM requests WHERE latency_ns > 1e9"
"""

_COMPARE_EPILOG = """\
A is before, B is after. Each is a capture, a folder of captures, a glob in quotes, a file that save
wrote, or a file that report --json wrote. Latencies, shares of failed requests and rates are
compared: by API, and by client, topic and broker within an API. Differences between reports are not
tested for chance, because a report does not say how its counts vary over time.

A difference is listed if it reaches --at-least and --least-ms (or --least-percent) and is unlikely
to be chance. To test for chance, both captures are divided into slices of time of the same length
(32 slices for the shorter capture), and the slices are assigned to A and B at random, 1,999 times.
Fewer than 1 in 20 of these assignments may have a difference as large anywhere. So a burst within
one slice is not listed. A difference that lasts as long as the captures is listed, whatever its
cause. The test needs at least 8 seconds with requests on each side, 30 requests for a median or
errors, and 1,000 requests for a p99. Latencies do not include requests that waited on purpose, and
are exact to 0.25 %. UUIDs in client ids are replaced by *.

exit status: 0; 1 if --fail-on found something; 2 for a wrong argument or input

examples:
  kanalyze compare before.pcap after.pcap
  kanalyze compare 'monday/*.pcap' 'tuesday/*.pcap' --api Produce --since 09:00 --until 10:00
  kanalyze compare a.pcap b.pcap --fail-on slower,errors --at-least 1.5 --json difference.json
"""

_SAVE_EPILOG = """\
requests, connections, anomalies, report, compare and sql read the file in place of the captures,
with the same result. It is a DuckDB database, which DuckDB can open too.

examples:
  kanalyze save -o before.duckdb captures/
  kanalyze report before.duckdb
  kanalyze requests --errors --client-id 'billing-*' before.duckdb
  kanalyze sql before.duckdb "SELECT api_name, max(latency_ns) FROM requests GROUP BY ALL"
"""

_REQUESTS_EPILOG = """\
examples:
  kanalyze requests --errors broker.pcap
  kanalyze requests --api Fetch --slower-than 10ms broker.pcap
  kanalyze requests -o requests.parquet captures/
  kanalyze requests --format jsonl broker.pcap | jq .client_id
  kanalyze requests --columns client_id,api_name,latency_ns --format csv broker.pcap
"""

_DECODE_EPILOG = """\
examples:
  kanalyze decode broker.pcap | jq 'select(.status == "error")'
  kanalyze decode --format text --api JoinGroup broker.pcap
  kanalyze decode --format text --all --client-id 'billing-*' -o billing.txt broker.pcap
"""

_EXTRACT_EPILOG = """\
Packets are copied unchanged and in order. They contain records and, if logins are among them, SASL
tokens and passwords; kanalyze anonymize blanks both. Packets of requests and responses get a
comment, which Wireshark shows: API, version, correlation id, client, status, latency. Captures are
read twice.

examples:
  kanalyze extract --errors -o errors.pcapng broker.pcap
  kanalyze extract --api Produce --slower-than 500ms --around 2s -o slow.pcapng captures/
  kanalyze extract --client-id billing --whole-connections -o billing.pcapng broker.pcap
"""

_ANONYMIZE_EPILOG = """\
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

_PROTOCOL_EPILOG = """\
examples:
  kanalyze protocol
  kanalyze protocol Fetch
  kanalyze protocol errors
  kanalyze protocol 18 --json
"""

_RECORDS_EPILOG = """\
examples:
  kanalyze records --topic orders broker.pcap
  kanalyze records --api Fetch --values broker.pcap
  kanalyze records --values --format jsonl broker.pcap | jq -r .value
  kanalyze records --search order-4711 captures/
  kanalyze records --columns topic,partition,offset,delay_ns --api Fetch --format csv broker.pcap
  kanalyze records -o records.parquet captures/
"""

_CONNECTIONS_EPILOG = """\
examples:
  kanalyze connections broker.pcap
  kanalyze connections --client-ip 10.1.0.0/16 broker.pcap
  kanalyze connections -o connections.parquet captures/

The columns have two round-trip times: from the capture point to the broker and back, and to the
client and back. If the capture was made at one end, that end's time is near 0.
"""

_ANOMALIES_EPILOG = """\
examples:
  kanalyze anomalies broker.pcap
  kanalyze anomalies --kind lost_bytes --kind not_in_sync broker.pcap
  kanalyze anomalies --format jsonl captures/ | jq -r .kind | sort | uniq -c
"""

_LIVE_EPILOG = """\
examples:
  kanalyze live -i eth0 --port 9092
  kanalyze live -i eth0 --write rows/ --save slow.pcapng --save-slower-than 500ms
  ssh broker tcpdump -i any -U -s 0 -w - port 9092 | kanalyze live -

Without a terminal, or with --format, lines of JSON replace the view: the rates of the last seconds
(jsonl), or a row for each request (rows). Ctrl-c, or q in the view, ends the run; the view ends
with a report. The run also ends if its terminal is closed, unless nohup started it. SIGHUP starts
new files.
"""

_BATCH_EPILOG = """\
examples:
  kanalyze batch captures/ --out archive/
  kanalyze batch captures/ --out archive/ --checkpoint state/
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

_COMPLETION_EPILOG = """\
examples:
  eval "$(kanalyze completion bash)"        in ~/.bashrc
  kanalyze completion zsh > ~/.zfunc/_kanalyze        with fpath+=~/.zfunc before compinit
  kanalyze completion fish > ~/.config/fish/completions/kanalyze.fish
"""

_PROGRAM = "kanalyze"
_MAX_JOBS = 256
_MAX_COUNT = 65536
_MAX_RECORDS = 2**31 - 1
_MAX_SECONDS = 1e9
_LONGEST_NUMBER = 4300
"""int() refuses numbers with more digits."""
_FAIL_ON = ("slower", "errors", "new", "gone", "any")
_REPORT_FORMATS = ("text", "json", "md", "html")
_REPORT_SORTS = ("requests", "errors", "bytes", "p50", "p90", "p99", "max")
_FORMATS = ("table", "csv", "jsonl", "parquet")


def parser() -> argparse.ArgumentParser:
    """Return the parser; the name of the command is in ``command``."""
    program = HintingParser(
        prog=_PROGRAM,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    program.add_argument(
        "--version",
        action=_Version,
        nargs=0,
        help="show the version, whether it is compiled, Python and the platform, and exit",
    )
    commands = program.add_subparsers(
        dest="command", metavar="COMMAND", required=True, prog=_PROGRAM, parser_class=LazyCommand
    )
    for name, (text, epilog, fill) in _commands().items():
        commands.add_parser(
            name,
            help=text,
            description=f"{text[0].upper()}{text[1:]}.",
            epilog=epilog,
            formatter_class=HelpFormatter,
            allow_abbrev=False,
        ).fill = fill
    return program


class _Version(argparse.Action):
    """Shows the version of the program and what it runs on."""

    def __call__(self, *_: object) -> NoReturn:
        """Write one line to standard output and exit."""
        import platform  # imported late: it is slow

        kind = "compiled" if is_compiled() else "not compiled"
        python = f"{platform.python_implementation()} {platform.python_version()}"
        text = f"kanalyze {kanalyze.__version__} ({kind}), {python}, {platform.platform()}\n"
        sys.stdout.write(text)
        sys.exit(0)


def _commands() -> dict[str, tuple[str, str, Callable[[argparse.ArgumentParser], None]]]:
    """Return the help, the examples, and the function that adds the arguments of each command."""
    return {
        "report": (
            "summarize captures: findings, then tables by API, client, topic and so on",
            _REPORT_EPILOG,
            _add_report,
        ),
        "requests": ("write one row per request", _REQUESTS_EPILOG, _add_requests),
        "records": (
            "write one row per record produced or fetched",
            _RECORDS_EPILOG,
            _add_records,
        ),
        "decode": ("write every field of every message", _DECODE_EPILOG, _add_decode),
        "connections": (
            "write one row per TCP connection",
            _CONNECTIONS_EPILOG,
            _add_connections,
        ),
        "anomalies": (
            "write one row per anomaly: what is missing or wrong, and where",
            _ANOMALIES_EPILOG,
            _add_anomalies,
        ),
        "save": (
            "save the tables of captures to a file, to be read again",
            _SAVE_EPILOG,
            _add_save,
        ),
        "sql": ("run an SQL query over the tables of captures", _SQL_EPILOG, _add_sql),
        "compare": ("show what differs between two captures", _COMPARE_EPILOG, _add_compare),
        "extract": (
            "write the packets of requests to a capture",
            _EXTRACT_EPILOG,
            _add_extract,
        ),
        "anonymize": (
            "write captures without names, addresses and contents",
            _ANONYMIZE_EPILOG,
            _add_anonymize,
        ),
        "protocol": (
            "show the supported APIs, versions, fields and errors",
            _PROTOCOL_EPILOG,
            _add_protocol,
        ),
        "live": ("show the requests on an interface now", _LIVE_EPILOG, _add_live),
        "batch": (
            "write tables and a report of many captures, with Spark or without",
            _BATCH_EPILOG,
            _add_batch,
        ),
        "completion": (
            "write the script that completes commands and options in a shell",
            _COMPLETION_EPILOG,
            _add_completion,
        ),
    }


def _add_report(command: argparse.ArgumentParser) -> None:
    _add_output_file(command)
    command.add_argument(
        "--format",
        choices=_REPORT_FORMATS,
        help="default: by the ending of FILE; text on standard output",
    )
    _add_tables_and_files(command)
    _add_input(command)
    _add_jobs(command)


def _add_output_file(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "-o", "--output", metavar="FILE", default="-", help="output file (default: standard output)"
    )


def _add_tables_and_files(command: argparse.ArgumentParser) -> None:
    """Add the options of all reports: the order of tables, other files, findings."""
    command.add_argument(
        "--sort",
        choices=_REPORT_SORTS,
        help="for text and md: sort the lines of tables by this figure, in descending order; p50 "
        "and so on are latencies (default: the order in JSON)",
    )
    _option(
        command,
        "--limit",
        "N",
        "for text and md: show at most N lines of each table (default: 5 to 40, depending on "
        "the table). JSON has all lines, except for the slowest requests: 10, or N if N is larger",
        _count,
    )
    _option(
        command,
        "--json",
        "FILE",
        "also write the report as JSON; if FILE is -, write only JSON, to standard output",
    )
    _option(command, "--html", "FILE", "also write the report as an HTML page that works offline")
    _add_findings(command)


def _add_findings(command: argparse._ActionsContainer) -> None:
    _repeated(
        command,
        "--threshold",
        "NAME=NUMBER",
        "set a threshold of a finding, such as throttled.least_requests=10",
        _threshold,
    )
    _option(command, "--queries", "DIR", "a folder with more findings to search for, NAME.sql")


def _add_requests(command: argparse.ArgumentParser) -> None:
    _add_output(
        command, ("perfetto",), "; perfetto: a trace for ui.perfetto.dev and chrome://tracing"
    )
    _flag(
        command,
        "--wireshark",
        "instead of rows, write the display filter that shows their packets in Wireshark; one "
        "filter for each capture",
    )
    _add_input(command)
    _add_jobs(command)


def _add_records(command: argparse.ArgumentParser) -> None:
    _flag(
        command, "--values", "also show keys, values and headers; bytes that are not text as base64"
    )
    _option(
        command,
        "--max-records",
        "N",
        "read at most N records of a batch; a row with the problem too_many_records replaces "
        "the others (default: 4 per byte of the batch on the wire, at least 1000; no valid batch "
        "has more)",
        _record_limit,
    )
    _option(
        command,
        "--search",
        "BYTES",
        "only records with this text, or these bytes (hex:00ff), in the key, the value or a "
        "header's value; the column found_in says where. Rows of unreadable batches are kept",
        _search,
    )
    _add_output(command)
    _add_input(command)


def _add_connections(command: argparse.ArgumentParser) -> None:
    _add_output(command)
    filters = _add_captures(command)
    _repeated(filters, "--client-id", "GLOB", "first client id, such as 'billing-*'")
    _add_end_filters(filters, "connections open")


def _add_anomalies(command: argparse.ArgumentParser) -> None:
    _add_output(command)
    filters = _add_captures(command)
    _repeated(filters, "--kind", "NAME", "kind, such as lost_bytes")
    _add_end_filters(filters, "anomalies")


def _add_sql(command: argparse.ArgumentParser) -> None:
    _option(command, "--query", "NAME", "run this query, one of --list")
    _flag(command, "--list", "list the queries and what they answer")
    _flag(command, "--tables", "list the tables, their columns and their meaning")
    _repeated(
        command, "--param", "NAME=VALUE", "value of a parameter, written $NAME in SQL", _setting
    )
    _option(command, "--queries", "DIR", "a folder with more queries, NAME.sql")
    _add_output_file(command)
    command.add_argument(
        "--format",
        choices=_FORMATS,
        help="default: from the ending of FILE; table on standard output",
    )
    _add_filters(_add_captures(command, stdin=False, with_query=True))
    _add_jobs(command)


def _add_compare(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "a",
        metavar="A",
        help="before: a capture, a folder of captures, a glob, a saved file, or a report as JSON",
    )
    command.add_argument("b", metavar="B", help="after: the same")
    _option(
        command,
        "--json",
        "FILE",
        "also write the comparison as JSON; if FILE is -, write only JSON, to standard output",
    )
    command.add_argument(
        "--format",
        choices=("text", "json", "md"),
        default="text",
        help="format on standard output (default: text)",
    )
    thresholds = command.add_argument_group("what to list")
    _option(
        thresholds,
        "--at-least",
        "TIMES",
        "list differences of at least this factor: slower, faster, more or less frequent "
        "(default: 1.2)",
        _number,
        1.2,
    )
    _option(
        thresholds,
        "--least-ms",
        "MS",
        "and, for latencies, of at least this many milliseconds (default: 1)",
        _number,
        1.0,
    )
    _option(
        thresholds,
        "--least-percent",
        "PERCENT",
        "and, for errors, of at least this percentage of requests (default: 0.1)",
        _number,
        0.1,
    )
    _option(
        thresholds,
        "--fail-on",
        "WORDS",
        f"exit with status 1 if there is any of these: {', '.join(_FAIL_ON)}; separate "
        "several by commas",
        _fail_on,
        [],
    )
    filters = _add_settings(command)
    _add_filters(filters)
    _add_jobs(command)


def _add_save(command: argparse.ArgumentParser) -> None:
    command.add_argument("-o", "--output", metavar="FILE", required=True, help="the database file")
    # No workers: they would change the order of connections and anomalies.
    _add_input(command)


def _add_capture_output(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="the capture to write, a pcapng file"
    )
    _flag(command, "--force", "replace FILE even if it is a capture")


def _add_extract(command: argparse.ArgumentParser) -> None:
    _add_capture_output(command)
    _option(
        command,
        "--around",
        "TIME",
        "also the packets of the same connections up to this long before and after each "
        "request, such as 2s",
    )
    _repeated(
        command,
        "--finding",
        "NAME",
        "only the requests or connections that a finding of kanalyze report is about, such as "
        "unanswered",
    )
    extent = command.add_mutually_exclusive_group()
    _flag(
        extent,
        "--with-handshake",
        "also the beginning of the connections: TCP and TLS handshakes, ApiVersions, SASL",
    )
    _flag(
        extent, "--whole-connections", "all packets of the connections that have selected requests"
    )
    _flag(
        command,
        "--with-secrets",
        "add the TLS secrets of decrypted connections to the file: everyone who has the file "
        "can read all of it, passwords included",
    )
    _add_input(command)
    _add_jobs(command)


def _add_anonymize(command: argparse.ArgumentParser) -> None:
    _add_capture_output(command)
    _option(
        command,
        "--key",
        "TEXT",
        "a secret: captures with the same key have the same stand-ins; @FILE reads the key "
        "from a file, so that other users of the machine do not see it (default: a random key)",
    )
    _flag(
        command,
        "--strip-records",
        "leave out records at the end of packets, as a snap length does: a smaller file with "
        "the same requests",
    )
    command.add_argument(
        "captures",
        nargs="+",
        metavar="CAPTURE",
        help="a pcap or pcapng file, compressed or not, a folder, a glob, or a URL of any of "
        "these; several become one capture, in the order of time",
    )
    _add_no_progress(command)
    group = command.add_argument_group("Kafka")
    _add_ports(group)
    _add_definitions(group)
    _add_memory(command)


def _add_output(
    command: argparse.ArgumentParser, more_formats: Sequence[str] = (), about_formats: str = ""
) -> None:
    _add_output_file(command)
    command.add_argument(
        "--format",
        choices=(*_FORMATS, *more_formats),
        help=f"default: by the ending of FILE; table on standard output{about_formats}",
    )
    _option(command, "--columns", "A,B,...", "columns to write, in this order (default: all)")


def _add_decode(command: argparse.ArgumentParser) -> None:
    _add_output_file(command)
    command.add_argument(
        "--format",
        choices=("jsonl", "text"),
        help="jsonl: an object per request, as in the broker's request log (KIP-673); "
        "text: a tree with byte offsets; default: by the ending of FILE; jsonl on standard output",
    )
    _flag(command, "--all", "with text: do not shorten arrays, texts or bytes")
    _add_input(command)


def _add_protocol(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "api",
        nargs="?",
        metavar="API",
        help="the name or key of an API: show its fields in every version; errors: show the error "
        "codes; default: list all APIs",
    )
    _flag(command, "--json", "write JSON")
    _add_definitions(command)


def _add_live(command: argparse.ArgumentParser) -> None:
    command.usage = f"{_PROGRAM} live [OPTIONS] (-i IFACE | - | --list)"
    source = command.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "-i",
        "--interface",
        metavar="IFACE",
        help="capture on this interface; on Linux any is all of them",
    )
    _flag(source, "--list", "list the interfaces")
    source.add_argument(
        "pipe", nargs="?", metavar="-", type=_pipe, help="read a capture from standard input"
    )
    capture = command.add_argument_group("packets")
    _repeated(
        capture,
        "--port",
        "N",
        "only packets with this TCP port, which is treated as a broker's",
        _port,
    )
    _repeated(capture, "--host", "IP", "only packets with this address or network")
    _option(
        capture, "--filter", "TEXT", "only packets that match this tcpdump filter; needs libpcap"
    )
    _option(
        capture,
        "--buffer",
        "SIZE",
        "the kernel's buffer for packets (default: 128M)",
        _size,
        128 << 20,
    )
    _add_row_filters(
        command.add_argument_group("requests (all must match; repeated values are alternatives)")
    )
    _repeated(
        command.add_argument_group("TLS"),
        "--keylog",
        "FILE",
        f"{_KEY_LOG}; the file may be created later, grow and be replaced",
    )
    _add_live_limits(command.add_argument_group("Kafka, and limits"))
    _add_live_output(command.add_argument_group("output"))
    _add_live_files(command.add_argument_group("files"))


def _add_live_limits(group: argparse._ArgumentGroup) -> None:
    _option(
        group, "--topic-ids", "FILE", "names of topics by id: lines of 'ID NAME', or a JSON object"
    )
    _add_definitions(group)
    _option(group, "--max-memory", "SIZE", "memory for open connections (default: 1G)", _size)
    _option(group, "--duration", "SECONDS", "end after this time", _seconds)


def _add_live_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--format",
        choices=("view", "jsonl", "rows"),
        help="view: on the terminal; jsonl: a line of rates per interval; rows: a line per request "
        "(default: view on a terminal, else jsonl)",
    )
    _option(group, "--interval", "SECONDS", "the interval of --format jsonl (default: 1)", _seconds)
    _option(group, "--json", "FILE", "also write the report at the end as JSON")
    _add_findings(group)
    _option(
        group,
        "--metrics",
        "[HOST:]PORT",
        "serve metrics for Prometheus; only on this machine, unless HOST is given",
    )
    group.add_argument(
        "--metrics-host",
        action="append",
        metavar="NAME",
        help="also accept requests for metrics to this host name, besides HOST and the machine's "
        "own name; may be repeated",
    )


def _add_live_files(group: argparse._ArgumentGroup) -> None:
    _option(group, "--write", "DIR", "write rows to Parquet files in this folder")
    _option(
        group,
        "--write-every",
        "SECONDS",
        "start a new file after this time (default: 300)",
        _seconds,
    )
    _option(group, "--write-size", "SIZE", "start a new file at this size (default: 256M)", _size)
    _option(group, "--write-files", "N", "keep the newest N files (default: 288)", _count)
    _option(
        group,
        "--save",
        "FILE.pcapng",
        "save the packets of requests that --save-errors and --save-slower-than select "
        "(default: errors), at most 500 requests a second; TLS packets stay encrypted",
    )
    _flag(
        group,
        "--with-secrets",
        "add the TLS secrets of decrypted connections to the file of --save: everyone who has "
        "the file can read all of it, passwords included",
    )
    _flag(group, "--save-errors", "save requests answered with an error code")
    _option(
        group, "--save-slower-than", "TIME", "save requests with a higher latency, such as 500ms"
    )
    _option(group, "--save-size", "SIZE", "start a new file at this size (default: 256M)", _size)
    _option(group, "--save-files", "N", "keep the newest N files (default: 8)", _count)


def _add_completion(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="your shell"
    )


def _add_batch(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--out",
        metavar="PATH",
        required=True,
        help="output folder, which all workers can reach, or a URL",
    )
    command.add_argument(
        "--format",
        choices=("text", "json", "md"),
        help="format of the report on standard output (default: text)",
    )
    _add_tables_and_files(command)
    _add_input(command, keys=False)
    _repeated(
        command.add_argument_group("TLS"),
        "--keylog",
        "PATH",
        "decrypt with the secrets of this file, folder or URL, which all workers can reach, "
        "in the format of SSLKEYLOGFILE; the variable itself is not read",
    )
    _add_archive(command.add_argument_group("archives that grow"))
    _add_engine(command.add_argument_group("engine"))


def _add_archive(group: argparse._ArgumentGroup) -> None:
    _option(
        group,
        "--checkpoint",
        "DIR",
        "a folder or URL for the state that the next run continues from",
    )
    _option(
        group,
        "--settle",
        "SECONDS",
        "leave files that changed less than this time ago to the next run (default: 60)",
        _seconds,
        60.0,
    )
    _flag(group, "--finish", "the last run: read all files, and close open connections")
    _flag(
        group,
        "--replace",
        "begin again: replace all rows of the folder, also those of other captures or of "
        "another archive",
    )


def _add_engine(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--engine",
        choices=("spark", "process"),
        default="spark",
        help="what runs the tasks: Spark, or processes on this machine, which need no Java and "
        "start at once; the output is the same, and either continues what the other began "
        "(default: spark)",
    )
    _option(
        group,
        "--jobs",
        "N",
        "with --engine process: number of processes (default: number of cores)",
        _jobs,
    )
    _option(
        group,
        "--master",
        "URL",
        "with Spark: local[*], spark://HOST:PORT, yarn, k8s://... (default: that of "
        "spark-submit, or all cores of this machine)",
    )
    _repeated(group, "--conf", "KEY=VALUE", "a setting of Spark", _setting)
    _option(
        group,
        "--buckets",
        "N",
        "number of parts that connections are divided into (default: one per core where each "
        "task can read all captures; else one per 256M of captures, from 8 to 512); the first run "
        "of an archive decides",
        _count,
    )
    _option(
        group,
        "--split-size",
        "SIZE",
        "several tasks may read a pcap file, in parts of at least this size (default: 64M)",
        _size,
        64 << 20,
    )


def _add_input(command: argparse.ArgumentParser, *, keys: bool = True) -> None:
    _add_filters(_add_captures(command, stdin=False, keys=keys))


def _add_captures(
    command: argparse.ArgumentParser,
    *,
    stdin: bool = True,
    with_query: bool = False,
    keys: bool = True,
) -> argparse._ArgumentGroup:
    """Add the arguments of all commands that read captures; return the group for their filters.

    Args:
        command: the parser of the command.
        stdin: whether the command can read standard input.
        with_query: whether the last argument may be a query.
        keys: whether the command can decrypt TLS.
    """
    sources = "a pcap or pcapng file, compressed or not, a folder, a glob, "
    sources += (
        "a URL of any of these, or - for standard input" if stdin else "or a URL of any of these"
    )
    command.add_argument(
        "captures",
        nargs="*" if with_query else "+",
        metavar="CAPTURE",
        help=f"{sources}; several are read as one capture, in the order of time"
        + ("; then the query, if --query is not given" if with_query else ""),
    )
    return _add_settings(command, keys=keys)


_KEY_LOG = (
    "decrypt TLS with the secrets in this file, in the format of SSLKEYLOGFILE; by default the "
    "file that this variable names"
)


def _add_settings(
    command: argparse.ArgumentParser, *, keys: bool = True
) -> argparse._ArgumentGroup:
    """Add the options that say how captures are read; return the group for filters."""
    _add_no_progress(command)
    _add_detection(command.add_argument_group("Kafka"))
    if keys:
        _repeated(command.add_argument_group("TLS"), "--keylog", "FILE", _KEY_LOG)
    _add_memory(command)
    return command.add_argument_group("filters (all must match; repeated values are alternatives)")


def _add_no_progress(command: argparse.ArgumentParser) -> None:
    _flag(command, "--no-progress", "do not show progress on standard error")


def _add_memory(command: argparse.ArgumentParser) -> None:
    _option(
        command.add_argument_group("limits"),
        "--max-memory",
        "SIZE",
        "memory for open connections, such as 256M or 2G (default: 1G); dropped data is "
        "reported as an anomaly",
        _size,
    )


def _add_jobs(command: argparse.ArgumentParser) -> None:
    _option(
        command,
        "--jobs",
        "N",
        "number of processes for large files (default: number of cores); the result is the same",
        _jobs,
    )


def _add_ports(group: argparse._ArgumentGroup) -> None:
    _repeated(
        group,
        "--port",
        "N",
        "only brokers on this TCP port, whose connections are treated as Kafka whatever their "
        "bytes look like",
        _port,
    )


def _add_detection(group: argparse._ArgumentGroup) -> None:
    _add_ports(group)
    _option(
        group,
        "--topic-ids",
        "FILE",
        "names of topics by id, for topics whose name is not in the capture: lines of "
        "'ID NAME', or a JSON object",
    )
    _add_definitions(group)


def _add_definitions(group: argparse._ActionsContainer) -> None:
    _option(
        group,
        "--definitions",
        "DIR",
        "a folder of message definitions (*.json in Kafka's format) to add to the built-in "
        "ones, for example of another release, a fork or a vendor",
    )


def _add_filters(group: argparse._ArgumentGroup) -> None:
    _add_request_filters(group)
    _add_end_filters(group, "requests")


def _add_row_filters(group: argparse._ArgumentGroup) -> None:
    """Add all filters except those on times."""
    _add_request_filters(group)
    _add_address_filters(group)


def _add_request_filters(group: argparse._ArgumentGroup) -> None:
    _repeated(group, "--api", "NAME", "API by name or key, such as Produce")
    _repeated(group, "--client-id", "GLOB", "client id, such as 'billing-*'")
    _repeated(group, "--topic", "GLOB", "topic")
    _repeated(
        group,
        "--partition",
        "N",
        "partition: its number (of --topic, if given), or TOPIC-N such as orders-3",
    )
    _repeated(group, "--group", "GLOB", "consumer group")
    _repeated(
        group,
        "--status",
        "WORD",
        "ok, error, one_way (no response is due), unanswered, orphan_response or malformed",
    )
    _repeated(
        group, "--error", "NAME", "error code, such as NOT_LEADER_OR_FOLLOWER or 6, in the response"
    )
    _flag(
        group,
        "--errors",
        "only requests answered with an error code, or with a response that was not read",
    )
    _option(
        group,
        "--slower-than",
        "TIME",
        "only requests with a higher latency, such as 10ms or 1.5s, except those that the "
        "broker held back on purpose",
    )


def _add_address_filters(group: argparse._ArgumentGroup) -> None:
    _repeated(group, "--client-ip", "IP", "client address, or network such as 10.0.0.0/8")
    _repeated(
        group,
        "--broker",
        "IP[:PORT]",
        "broker address, whose connections are treated as Kafka whatever their bytes look like",
    )


def _add_end_filters(group: argparse._ArgumentGroup, items: str) -> None:
    _add_address_filters(group)
    _option(
        group,
        "--since",
        "TIME",
        f"only {items} from this time on: ISO 8601 (UTC without a zone), a time of day such "
        "as 22:46 (on the day of the first packet), or Unix seconds",
    )
    _option(group, "--until", "TIME", f"only {items} before this time")


def _flag(group: argparse._ActionsContainer, flag: str, text: str) -> None:
    group.add_argument(flag, action="store_true", help=text)


def _option(
    group: argparse._ActionsContainer,
    flag: str,
    metavar: str,
    text: str,
    type_: Callable[[str], Any] = str,
    default: Any = None,
) -> None:
    group.add_argument(flag, type=type_, default=default, metavar=metavar, help=text)


def _repeated(
    group: argparse._ActionsContainer,
    flag: str,
    metavar: str,
    text: str,
    type_: Callable[[str], Any] = str,
) -> None:
    group.add_argument(
        flag,
        action="append",
        default=[],
        type=type_,
        metavar=metavar,
        help=f"{text}; may be repeated",
    )


def _size(text: str) -> int:
    """Parse a size as :func:`~kanalyze.common.texts.parse_size` does."""
    try:
        return parse_size(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _jobs(text: str) -> int:
    """Parse a number of processes."""
    return _whole_number(text, _MAX_JOBS, f"a number of jobs from 1 to {_MAX_JOBS}")


def _count(text: str) -> int:
    """Parse a count."""
    return _whole_number(text, _MAX_COUNT, f"a number from 1 to {_MAX_COUNT}")


def _record_limit(text: str) -> int:
    """Parse a number of records; the header of a batch has 32 bits for it."""
    return _whole_number(text, _MAX_RECORDS, f"a number from 1 to {_MAX_RECORDS}", longest=10)


def _port(text: str) -> int:
    return _whole_number(text, 65535, "a TCP port", longest=5)


def _whole_number(text: str, most: int, what: str, longest: int = _LONGEST_NUMBER) -> int:
    """Parse a number from 1 to ``most``; messages say that it is not ``what``."""
    is_number = text.isascii() and text.isdigit() and len(text) <= longest
    if is_number and 0 < int(text) <= most:
        return int(text)
    raise argparse.ArgumentTypeError(f"not {what}: {text!r}")


def _search(text: str) -> RecordSearch:
    """Parse the bytes to search in records."""
    from kanalyze.tables.records.search import parse_search  # imported late: for one command

    try:
        return parse_search(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if 0 <= seconds <= _MAX_SECONDS:
        return seconds
    raise argparse.ArgumentTypeError(f"not a number of seconds: {text!r}")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a number: {text!r}") from None


def _fail_on(text: str) -> list[str]:
    words = text.split(",")
    for word in words:
        if word not in _FAIL_ON:
            raise argparse.ArgumentTypeError(f"not one of {', '.join(_FAIL_ON)}: {word!r}")
    return words


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if key and equals:
        return key, value
    raise argparse.ArgumentTypeError(f"not KEY=VALUE: {text!r}")


def _threshold(text: str) -> tuple[str, float]:
    key, _, value = text.partition("=")
    with suppress(ValueError):
        if key and math.isfinite(float(value)):
            return key, float(value)
    raise argparse.ArgumentTypeError(f"not NAME=NUMBER: {text!r}")


def _pipe(text: str) -> str:
    if text != "-":
        raise argparse.ArgumentTypeError(
            f"not -: {text!r} (live reads only standard input; kanalyze report reads files)"
        )
    return text
