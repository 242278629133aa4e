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
    return made


def _add_report(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    made = _command(commands, "report", "summarize captures on the terminal", _REPORT_EPILOG)
    made.add_argument(
        "--json",
        metavar="FILE",
        help="write the report as JSON too; - for standard output, and nothing else there",
    )
    _add_input(made)


def _add_requests(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    made = _command(commands, "requests", "write one row per request", _REQUESTS_EPILOG)
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
    _add_input(made)


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
    made.add_argument(
        "captures",
        nargs="+",
        metavar="CAPTURE",
        help="a pcap or pcapng file, a folder, a glob, or - for standard input; "
        "several are one capture, in the order of their packets",
    )
    _add_detection(made.add_argument_group("what is Kafka"))
    _add_filters(made.add_argument_group("filters (all given must hold; values of one add up)"))


def _add_detection(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--port",
        action="append",
        default=[],
        type=_port,
        metavar="N",
        help="take this TCP port for a broker's, whatever the bytes look like; may be repeated",
    )


def _add_filters(group: argparse._ArgumentGroup) -> None:
    def repeated(flag: str, metavar: str, text: str) -> None:
        group.add_argument(
            flag, action="append", default=[], metavar=metavar, help=f"{text}; may be repeated"
        )

    repeated("--api", "NAME", "API by name or key, such as Produce")
    repeated("--client-id", "GLOB", "client id, such as 'billing-*'")
    repeated("--client-ip", "IP", "client address, or network such as 10.0.0.0/8")
    repeated(
        "--broker", "IP[:PORT]", "broker address; it is taken for a broker's whatever its bytes"
    )
    repeated("--topic", "GLOB", "topic")
    repeated("--group", "GLOB", "consumer group")
    group.add_argument(
        "--errors", action="store_true", help="only requests answered with an error code"
    )
    group.add_argument(
        "--slower-than",
        metavar="TIME",
        help="only requests with a higher latency, such as 10ms or 1.5s; "
        "fetches that waited for data are not slow",
    )
    group.add_argument(
        "--since",
        metavar="TIME",
        help="only requests from then on: ISO 8601 (UTC if without zone) or Unix seconds",
    )
    group.add_argument("--until", metavar="TIME", help="only requests before then")


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise argparse.ArgumentTypeError(f"not a TCP port: {text!r}")
    return int(text)
