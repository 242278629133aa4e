"""The arguments of every command.

In: nothing. Out: an ``argparse`` parser. This module must not import anything slow: ``--help``
answers at once.
"""

from __future__ import annotations

import argparse

import kanalyze

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

_MOST_JOBS = 256
_FORMATS = ("table", "csv", "jsonl", "parquet")


def parser() -> argparse.ArgumentParser:
    """Return the parser; the chosen command's name is in ``command``."""
    made = argparse.ArgumentParser(
        prog="kanalyze",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--version", action="version", version=f"kanalyze {kanalyze.__version__}")
    commands = made.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _add_report(commands)
    _add_requests(commands)
    _add_records(commands)
    _add_decode(commands)
    _add_connections(commands)
    _add_anomalies(commands)
    _add_protocol(commands)
    return made


def _add_report(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    made = _command(commands, "report", "summarize captures on the terminal", _REPORT_EPILOG)
    made.add_argument(
        "--json",
        metavar="FILE",
        help="write the report as JSON too; - for standard output, and nothing else there",
    )
    _add_input(made)
    _add_jobs(made)


def _add_requests(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    made = _command(commands, "requests", "write one row per request", _REQUESTS_EPILOG)
    _add_output(made)
    _add_input(made)
    _add_jobs(made)


def _add_records(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    made = _command(
        commands, "records", "write one row per record produced or fetched", _RECORDS_EPILOG
    )
    made.add_argument(
        "--values",
        action="store_true",
        help="show keys, values and headers too, bytes that are no text as base64",
    )
    _add_output(made)
    _add_input(made)


def _add_connections(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    made = _command(
        commands, "connections", "write one row per TCP connection", _CONNECTIONS_EPILOG
    )
    _add_output(made)
    filters = _add_captures(made)
    _repeated(filters, "--client-id", "GLOB", "first client id, such as 'billing-*'")
    _add_end_filters(filters, "connections open")


def _add_anomalies(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    made = _command(
        commands,
        "anomalies",
        "write one row per anomaly: what is missing or wrong, and where",
        _ANOMALIES_EPILOG,
    )
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


def _add_decode(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    made = _command(commands, "decode", "write every field of every message", _DECODE_EPILOG)
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


def _add_protocol(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    made = _command(commands, "protocol", "show what is known of the protocol", _PROTOCOL_EPILOG)
    made.add_argument(
        "api",
        nargs="?",
        metavar="API",
        help="an API by name or key: its fields in every version; errors: the error codes; "
        "default: all APIs",
    )
    made.add_argument("--json", action="store_true", help="as JSON")
    _add_definitions(made)


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, epilog: str
) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _add_input(made: argparse.ArgumentParser) -> None:
    _add_filters(_add_captures(made))


def _add_captures(made: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add what all commands that read captures have; return the group for their filters."""
    made.add_argument(
        "captures",
        nargs="+",
        metavar="CAPTURE",
        help="a pcap or pcapng file, compressed or not, a folder, a glob, a URL of any of these, "
        "or - for standard input; several are one capture, in the order of their packets' times",
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
        help="take this TCP port for a broker's, whatever the bytes look like; may be repeated",
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
        "fetches that waited for data are not slow",
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
        help=f"only {what} from then on: ISO 8601 (UTC if without zone) or Unix seconds",
    )
    group.add_argument("--until", metavar="TIME", help=f"only {what} before then")


def _repeated(group: argparse._ArgumentGroup, flag: str, metavar: str, text: str) -> None:
    group.add_argument(
        flag, action="append", default=[], metavar=metavar, help=f"{text}; may be repeated"
    )


def _size(text: str) -> int:
    """Return the bytes that a number with an optional unit (K, M, G, T, of 1024) says."""
    number, unit = text.strip().upper().removesuffix("B").removesuffix("I"), 1
    for power, letter in enumerate("KMGT", 1):
        if number.endswith(letter):
            number, unit = number[:-1], 1024**power
    if not (number.isascii() and number.isdigit()):
        raise argparse.ArgumentTypeError(f"not a size: {text!r} (such as 256M or 2G)")
    return int(number) * unit


def _jobs(text: str) -> int:
    """Parse a number of processes."""
    if text.isascii() and text.isdigit() and 0 < int(text) <= _MOST_JOBS:
        return int(text)
    raise argparse.ArgumentTypeError(f"not a number of jobs from 1 to {_MOST_JOBS}: {text!r}")


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise argparse.ArgumentTypeError(f"not a TCP port: {text!r}")
    return int(text)
