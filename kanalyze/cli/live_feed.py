"""Where the packets of ``kanalyze live`` come from, and the secrets that decrypt them.

In: arguments; connections that are not decrypted. Out: a :class:`~kanalyze.live.run.Feed` and the
filters of its packets; key logs that grow; messages, which show no secret.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, BinaryIO, Final

from kanalyze.capture.live.capture import DEFAULT_GATHER_S, LiveCapture
from kanalyze.cli.analyze import KEY_LOG_VARIABLE
from kanalyze.cli.console import print_message
from kanalyze.errors import UsageError
from kanalyze.live.window.snapshot import PIPE
from kanalyze.render.missing import undecrypted_reason

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from contextlib import ExitStack

    from kanalyze.live.key_log_files import KeyLogFiles
    from kanalyze.live.run import Feed, PacketFilter
    from kanalyze.tls.streams import GivenUp

_ROWS_GATHER_S: Final = 0.1


def open_feed(
    arguments: argparse.Namespace, output_format: str, stack: ExitStack
) -> tuple[Feed, str, list[PacketFilter]]:
    """Open the feed until ``stack`` ends; return it, its name, and the filters of its packets.

    Raises KanalyzeError and OSError.
    """
    if arguments.interface is None:
        from kanalyze.capture.io.pipe import PipeCapture

        filters = _pipe_filters(arguments)
        return stack.enter_context(PipeCapture(_standard_input(), name=PIPE)), PIPE, filters
    # Packets are collected for a shorter time, so that rows are shown sooner.
    gather_s = _ROWS_GATHER_S if output_format == "rows" else DEFAULT_GATHER_S
    feed, filters = _interface(arguments, gather_s, stack)
    return feed, f"live:{arguments.interface}", filters


def _pipe_filters(arguments: argparse.Namespace) -> list[PacketFilter]:
    filters: list[PacketFilter] = []
    if text := _expression(arguments):
        from kanalyze.live.feed import ExpressionFilter

        filters.append(ExpressionFilter(text))
    return filters + _endpoint_filters(arguments)


def _interface(
    arguments: argparse.Namespace, gather_s: float, stack: ExitStack
) -> tuple[Feed, list[PacketFilter]]:
    """Listen on an interface.

    The kernel filters packets by a program that libpcap compiles. Without libpcap, ports and hosts
    are filtered here, and expressions are not possible.
    """
    from kanalyze.capture.live.kernel_filter import has_libpcap
    from kanalyze.live.feed import InterfaceFeed

    filters: list[PacketFilter] = []
    if has_libpcap() or _expression(arguments):
        text = _kernel_expression(arguments)
    else:
        filters, text = _endpoint_filters(arguments), None
    capture = stack.enter_context(
        LiveCapture(
            arguments.interface,
            filter_text=text,
            buffer_bytes=arguments.buffer,
            gather_s=gather_s,
        )
    )
    if filters:
        print_message("libpcap is not installed: kanalyze filters packets, not the kernel")
    return InterfaceFeed(capture, time.monotonic_ns), filters


def _kernel_expression(arguments: argparse.Namespace) -> str | None:
    """Return the kernel's filter; None for no filter. Raises UsageError and CaptureError."""
    from kanalyze.capture.live.interfaces import link_type_of
    from kanalyze.capture.live.kernel_filter import compile_filter, port_filter

    text, has_endpoints = _expression(arguments), bool(arguments.port or arguments.host)
    if not text and not has_endpoints:
        return None
    link_type = link_type_of(arguments.interface)
    expressions = [text] if text else []
    if has_endpoints:
        expressions.append(port_filter(arguments.port, arguments.host, link_type))
    for expression in expressions:
        # Compiled alone: "tcp) or (udp" is invalid, but would be valid between parentheses.
        compile_filter(expression, link_type, arguments.interface)
    return " and ".join(f"({expression})" for expression in expressions)


def _expression(arguments: argparse.Namespace) -> str:
    """Return the text of ``--filter``; an empty text selects everything, as in tcpdump."""
    return (arguments.filter or "").strip()


def _endpoint_filters(arguments: argparse.Namespace) -> list[PacketFilter]:
    """Return the filter by ``--port`` and ``--host``; raises UsageError."""
    from kanalyze.capture.live.kernel_filter import parse_networks
    from kanalyze.net.headers import EndpointFilter

    networks = parse_networks(arguments.host)
    has_endpoints = bool(arguments.port or networks)
    return [EndpointFilter(arguments.port, networks)] if has_endpoints else []


def _standard_input() -> BinaryIO:
    """Return standard input unbuffered, so that packets are read at once."""
    if sys.stdin is None:
        raise UsageError("standard input is closed: pipe a capture into kanalyze live -")
    if sys.stdin.isatty():
        raise UsageError("standard input is a terminal: pipe a capture into kanalyze live -")
    return getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)


_MAX_NAMED: Final = 10


def key_logs_of(arguments: argparse.Namespace, warn: Callable[[str], None]) -> KeyLogFiles | None:
    """Open and read the key logs that arguments or the environment name; None if there are none.

    Messages are printed until this function returns; ``warn`` receives later ones. Raises
    UsageError.
    """
    files = arguments.keylog
    variable = os.environ.get(KEY_LOG_VARIABLE)
    if not files and not variable and not arguments.with_secrets:
        return None
    from kanalyze.live.key_log_files import KeyLogFiles  # imported late: only for keys

    try:
        keys = KeyLogFiles(files or ([variable] if variable else []), print_message)
    except UsageError as error:
        if files or arguments.with_secrets:
            raise
        # The variable is meant for the programs that write the file.
        print_message(f"{KEY_LOG_VARIABLE} is ignored: {error}")
        return None
    keys.warn = warn
    if arguments.save is not None and not arguments.with_secrets:
        print_message(
            f"{arguments.save}: TLS packets stay encrypted; "
            "--with-secrets adds the secrets that decrypt them"
        )
    return keys


class GivenUpReporter:
    """Reports TLS connections that are not decrypted: the first ones by name, then a count."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._count = 0

    def add(self, given_up: Sequence[GivenUp]) -> None:
        """Report connections."""
        for connection in given_up:
            self._count += 1
            if self._count <= _MAX_NAMED:
                first, second = connection.tcp.endpoints
                reason = undecrypted_reason(connection.reason)
                self._warn(f"{first} and {second}: TLS connection not decrypted: {reason}")

    def end(self) -> None:
        """Report how many more connections were not decrypted."""
        if self._count > _MAX_NAMED:
            self._warn(f"{self._count - _MAX_NAMED:,} more TLS connections not decrypted")
