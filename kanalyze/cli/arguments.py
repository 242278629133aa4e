"""The arguments of every command.

In: nothing. Out: an ``argparse`` parser. This module must not import anything slow: ``--help``
answers at once.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import kanalyze
from kanalyze.cli.hints import HelpFormatter, HintingParser, LazyCommand
from kanalyze.common.compiled import is_compiled
from kanalyze.common.sizes import parse_size
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["parser"]

_DESCRIPTION = (
    "See what goes over the wire between Kafka clients and brokers, from packet captures."
)

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
  kanalyze report --client-ip 10.1.0.0/16 --since 2026-01-31T09:30:00Z *.pcapng
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
  kanalyze records -o records.parquet captures/
"""

_CONNECTIONS_EPILOG = """\
examples:
  kanalyze connections broker.pcap
  kanalyze connections --client-ip 10.1.0.0/16 broker.pcap
  kanalyze connections -o connections.parquet captures/

The two round trips divide the way at the capture point: to the broker and back, to the client and
back. A capture at one end holds next to nothing of that end's.
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

Where there is no terminal, or --format says so, lines of JSON stand in for the view: what the
last seconds were like (jsonl), or a row for each request (rows). Ctrl-c, or q in the view, ends it:
the view with a report. So does a terminal that goes away, unless nohup started it. SIGHUP begins
new files.
"""

_BATCH_EPILOG = """\
examples:
  kanalyze batch captures/ --out archive/
  kanalyze batch captures/ --out archive/ --checkpoint state/
  kanalyze batch s3://bucket/captures/ --out s3a://bucket/archive --master yarn

Below the folder of --out are then requests/ (Parquet, by day and hour in UTC),
anomalies/ and report.json. A run counts as a whole or not at all; the next one
completes one that was killed. Without --checkpoint a run replaces what the last
one wrote. With it an archive grows: each run reads the captures that are new, in
the order in which they were made, and what is open goes on in the next run, until
--finish ends it. One run at a time.
"""

_PROGRAM = "kanalyze"
_MOST_JOBS = 256
_MOST_COUNTED = 65536
_MOST_RECORDS = 2**31 - 1
_MOST_SECONDS = 1e9
_FORMATS = ("table", "csv", "jsonl", "parquet")


def parser() -> argparse.ArgumentParser:
    """Return the parser; the chosen command's name is in ``command``."""
    made = HintingParser(
        prog=_PROGRAM,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    kind = "compiled" if is_compiled() else "not compiled"
    version = f"kanalyze {kanalyze.__version__} ({kind})"
    made.add_argument("--version", action="version", version=version)
    commands = made.add_subparsers(
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
    return made


def _commands() -> dict[str, tuple[str, str, Callable[[argparse.ArgumentParser], None]]]:
    """Return what each command does, in words and by examples, and what adds its arguments."""
    return {
        "report": ("summarize captures on the terminal", _REPORT_EPILOG, _add_report),
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
        "protocol": ("show what is known of the protocol", _PROTOCOL_EPILOG, _add_protocol),
        "live": ("show what goes over an interface now", _LIVE_EPILOG, _add_live),
        "batch": (
            "turn many captures into tables and a report, with Spark",
            _BATCH_EPILOG,
            _add_batch,
        ),
    }


def _add_report(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--json",
        metavar="FILE",
        help="write the report as JSON too; - for standard output, and nothing else there",
    )
    _add_input(made)
    _add_jobs(made)


def _add_requests(made: argparse.ArgumentParser) -> None:
    _add_output(made)
    _add_input(made)
    _add_jobs(made)


def _add_records(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--values",
        action="store_true",
        help="show keys, values and headers too, bytes that are no text as base64",
    )
    made.add_argument(
        "--max-records",
        type=_record_limit,
        metavar="N",
        help="how many records of one batch are read; a row with the problem too_many_records "
        "stands for what is beyond (default: 4 for each byte that the batch has on the wire, at "
        "least 1000, which no sound batch has)",
    )
    _add_output(made)
    _add_input(made)


def _add_connections(made: argparse.ArgumentParser) -> None:
    _add_output(made)
    filters = _add_captures(made)
    _repeated(filters, "--client-id", "GLOB", "first client id, such as 'billing-*'")
    _add_end_filters(filters, "connections open")


def _add_anomalies(made: argparse.ArgumentParser) -> None:
    _add_output(made)
    filters = _add_captures(made)
    _repeated(filters, "--kind", "NAME", "kind, such as lost_bytes")
    _add_end_filters(filters, "anomalies")


def _add_output(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "-o", "--output", metavar="FILE", default="-", help="where to (default: standard output)"
    )
    made.add_argument(
        "--format",
        choices=_FORMATS,
        help="default: what the ending of FILE says; table on standard output",
    )
    made.add_argument(
        "--columns", metavar="A,B,...", help="columns to write, in this order (default: all)"
    )


def _add_decode(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "-o", "--output", metavar="FILE", default="-", help="where to (default: standard output)"
    )
    made.add_argument(
        "--format",
        choices=("jsonl", "text"),
        help="jsonl: an object per request, as the broker's own request log has it (KIP-673); "
        "text: a tree with byte offsets; default: what the ending of FILE says; "
        "jsonl on standard output",
    )
    made.add_argument(
        "--all", action="store_true", help="with text: cut no array, text or bytes short"
    )
    _add_input(made)


def _add_protocol(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "api",
        nargs="?",
        metavar="API",
        help="an API by name or key: its fields in every version; errors: the error codes; "
        "default: all APIs",
    )
    made.add_argument("--json", action="store_true", help="as JSON")
    _add_definitions(made)


def _add_live(made: argparse.ArgumentParser) -> None:
    source = made.add_mutually_exclusive_group(required=True)
    source.add_argument("-i", "--interface", metavar="IFACE", help="listen there; Linux: also any")
    source.add_argument("--list", action="store_true", help="list the interfaces")
    source.add_argument(
        "pipe", nargs="?", metavar="-", type=_pipe, help="read a capture from standard input"
    )
    capture = made.add_argument_group("what is captured")
    capture.add_argument(
        "--port",
        action="append",
        default=[],
        type=_port,
        metavar="N",
        help="only packets of this TCP port, which is taken for a broker's; may be repeated",
    )
    _repeated(capture, "--host", "IP", "only packets of this address, or network")
    capture.add_argument(
        "--filter",
        metavar="TEXT",
        help="only packets that match, in the language of tcpdump; needs libpcap",
    )
    capture.add_argument(
        "--buffer",
        type=_size,
        default=128 << 20,
        metavar="SIZE",
        help="what the kernel holds until it is read (default: 128M)",
    )
    _add_live_limits(made.add_argument_group("what is Kafka, and limits"))
    _add_live_output(made.add_argument_group("what is shown"))
    _add_live_files(made.add_argument_group("what is kept"))


def _add_live_limits(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--topic-ids", metavar="FILE", help="names of topics by id: a line 'ID NAME' each, or JSON"
    )
    _add_definitions(group)
    group.add_argument(
        "--max-memory",
        type=_size,
        metavar="SIZE",
        help="how much may be held of open connections (default: 1G)",
    )
    group.add_argument(
        "--duration", type=_seconds, metavar="SECONDS", help="end after so long by itself"
    )


def _add_live_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--format",
        choices=("view", "jsonl", "rows"),
        help="view: on the terminal; jsonl: a line of rates each interval; rows: a line for each "
        "request (default: view where there is a terminal, else jsonl)",
    )
    group.add_argument(
        "--interval",
        type=_seconds,
        metavar="SECONDS",
        help="of the lines of rates (default: 1)",
    )
    group.add_argument(
        "--json", metavar="FILE", help="write the report at the end as JSON there too"
    )
    group.add_argument(
        "--metrics",
        metavar="[HOST:]PORT",
        help="answer Prometheus there; on this machine alone unless HOST says otherwise",
    )
    group.add_argument(
        "--metrics-host",
        action="append",
        metavar="NAME",
        help="a name, besides HOST and its own, by which this machine may be asked for them "
        "(repeatable)",
    )


def _add_live_files(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--write", metavar="DIR", help="write rows there, in files of Parquet")
    group.add_argument(
        "--write-every",
        type=_seconds,
        metavar="SECONDS",
        help="begin a new one so often (default: 300),",
    )
    group.add_argument(
        "--write-size",
        type=_size,
        metavar="SIZE",
        help="or when it is so large (default: 256M),",
    )
    group.add_argument(
        "--write-files",
        type=_count,
        metavar="N",
        help="and keep so many (default: 288)",
    )
    group.add_argument(
        "--save",
        metavar="FILE.pcapng",
        help="keep the packets of exchanges with errors, or of those that the next two say; of at "
        "most 500 a second",
    )
    group.add_argument(
        "--save-errors", action="store_true", help="those answered with an error code"
    )
    group.add_argument(
        "--save-slower-than", metavar="TIME", help="those with a higher latency, such as 500ms"
    )
    group.add_argument(
        "--save-size",
        type=_size,
        metavar="SIZE",
        help="begin a new file when it is so large (default: 256M),",
    )
    group.add_argument(
        "--save-files",
        type=_count,
        metavar="N",
        help="and keep so many, the oldest go (default: 8)",
    )


def _add_batch(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--out",
        metavar="PATH",
        required=True,
        help="a folder that all of Spark's workers reach, or a URL that Spark writes to",
    )
    made.add_argument(
        "--json",
        metavar="FILE",
        help="write the report as JSON there too; - for standard output, and nothing else there",
    )
    _add_input(made)
    _add_archive(made.add_argument_group("archives that grow"))
    _add_spark(made.add_argument_group("Spark"))


def _add_archive(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="keep there, in a folder or URL, what the next run goes on from",
    )
    group.add_argument(
        "--settle",
        type=_seconds,
        default=60.0,
        metavar="SECONDS",
        help="leave files for the next run that were written to less than this long ago "
        "(default: 60)",
    )
    group.add_argument(
        "--finish",
        action="store_true",
        help="the last run: read all there is, and end what is open",
    )
    group.add_argument(
        "--replace",
        action="store_true",
        help="begin anew, though there are rows of other captures or of another archive",
    )


def _add_spark(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--master",
        metavar="URL",
        help="local[*], spark://HOST:PORT, yarn, k8s://... (default: that of spark-submit, or "
        "all cores of this machine)",
    )
    group.add_argument(
        "--conf",
        action="append",
        default=[],
        type=_setting,
        metavar="KEY=VALUE",
        help="a setting of Spark; may be repeated",
    )
    group.add_argument(
        "--buckets",
        type=_count,
        metavar="N",
        help="into how many parts connections are divided (default: one for 64M of captures, "
        "two for each core, from 8 to 512); the first run of an archive that grows decides",
    )
    group.add_argument(
        "--split-size",
        type=_size,
        default=64 << 20,
        metavar="SIZE",
        help="read larger pcap files in parts of about this size, which tasks share out "
        "(default: 64M)",
    )


def _add_input(made: argparse.ArgumentParser) -> None:
    _add_filters(_add_captures(made, stdin=False))


def _add_captures(made: argparse.ArgumentParser, *, stdin: bool = True) -> argparse._ArgumentGroup:
    """Add what all commands that read captures have; return the group for their filters.

    ``stdin``: whether standard input is one that may be read.
    """
    sources = "a pcap or pcapng file, compressed or not, a folder, a glob, "
    sources += (
        "a URL of any of these, or - for standard input" if stdin else "or a URL of any of these"
    )
    made.add_argument(
        "captures",
        nargs="+",
        metavar="CAPTURE",
        help=f"{sources}; several are one capture, in the order of their packets' times",
    )
    _add_detection(made.add_argument_group("what is Kafka"))
    limits = made.add_argument_group("limits")
    limits.add_argument(
        "--max-memory",
        type=_size,
        metavar="SIZE",
        help="how much may be held of open connections, such as 256M or 2G (default: 1G); "
        "what has to be dropped is an anomaly",
    )
    return made.add_argument_group("filters (all given must hold; values of one add up)")


def _add_jobs(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--jobs",
        type=_jobs,
        metavar="N",
        help="how many processes read, for files of some size (default: as many as there are "
        "cores); the result is the same",
    )


def _add_detection(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--port",
        action="append",
        default=[],
        type=_port,
        metavar="N",
        help="only brokers on this TCP port, which is taken for a broker's whatever the bytes "
        "look like; may be repeated",
    )
    group.add_argument(
        "--topic-ids",
        metavar="FILE",
        help="names of topics by id, for those that the capture tells none: "
        "a line 'ID NAME' each, or a JSON object",
    )
    _add_definitions(group)


def _add_definitions(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--definitions",
        metavar="DIR",
        help="a folder of message definitions (*.json in Kafka's own language) to add to the "
        "built-in ones, such as those of another release, a fork, a vendor",
    )


def _add_filters(group: argparse._ArgumentGroup) -> None:
    _repeated(group, "--api", "NAME", "API by name or key, such as Produce")
    _repeated(group, "--client-id", "GLOB", "client id, such as 'billing-*'")
    _repeated(group, "--topic", "GLOB", "topic")
    _repeated(group, "--group", "GLOB", "consumer group")
    group.add_argument(
        "--errors", action="store_true", help="only requests answered with an error code"
    )
    group.add_argument(
        "--slower-than",
        metavar="TIME",
        help="only requests with a higher latency, such as 10ms or 1.5s; "
        "what waited on purpose is not slow",
    )
    _add_end_filters(group, "requests")


def _add_end_filters(group: argparse._ArgumentGroup, what: str) -> None:
    _repeated(group, "--client-ip", "IP", "client address, or network such as 10.0.0.0/8")
    _repeated(
        group,
        "--broker",
        "IP[:PORT]",
        "broker address; it is taken for a broker's whatever its bytes",
    )
    group.add_argument(
        "--since",
        metavar="TIME",
        help=f"only {what} from then on: ISO 8601 (UTC if without zone), a time of day such as "
        "22:46 (of the day of the first packet), or Unix seconds",
    )
    group.add_argument("--until", metavar="TIME", help=f"only {what} before then")


def _repeated(group: argparse._ArgumentGroup, flag: str, metavar: str, text: str) -> None:
    group.add_argument(
        flag, action="append", default=[], metavar=metavar, help=f"{text}; may be repeated"
    )


def _size(text: str) -> int:
    """Return the bytes that a text says, as :func:`~kanalyze.common.sizes.parse_size`."""
    try:
        return parse_size(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _jobs(text: str) -> int:
    """Parse a number of processes."""
    if text.isascii() and text.isdigit() and 0 < int(text) <= _MOST_JOBS:
        return int(text)
    raise argparse.ArgumentTypeError(f"not a number of jobs from 1 to {_MOST_JOBS}: {text!r}")


def _count(text: str) -> int:
    """Parse how many there are to be of something."""
    if text.isascii() and text.isdigit() and 0 < int(text) <= _MOST_COUNTED:
        return int(text)
    raise argparse.ArgumentTypeError(f"not a number from 1 to {_MOST_COUNTED}: {text!r}")


def _record_limit(text: str) -> int:
    """Parse how many records a batch may hold: its header has 32 bits for their number."""
    digits = len(str(_MOST_RECORDS))  # Python reads no number of thousands of digits
    if text.isascii() and text.isdigit() and len(text) <= digits and 0 < int(text) <= _MOST_RECORDS:
        return int(text)
    raise argparse.ArgumentTypeError(f"not a number from 1 to {_MOST_RECORDS}: {text!r}")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if 0 <= seconds <= _MOST_SECONDS:
        return seconds
    raise argparse.ArgumentTypeError(f"not a number of seconds: {text!r}")


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if key and equals:
        return key, value
    raise argparse.ArgumentTypeError(f"not KEY=VALUE: {text!r}")


def _port(text: str) -> int:
    # Python reads no number of thousands of digits.
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65536):
        raise argparse.ArgumentTypeError(f"not a TCP port: {text!r}")
    return int(text)


def _pipe(text: str) -> str:
    if text != "-":
        raise argparse.ArgumentTypeError(
            f"not -: {text!r} (files are for kanalyze report, requests and others)"
        )
    return text
