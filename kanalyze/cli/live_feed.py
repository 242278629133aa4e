"""What ``kanalyze live`` reads: an interface, or a pipe, and of them the packets that are wanted.

In: arguments. Out: a :class:`~kanalyze.live.run.Feed`. This module must not know what becomes of
packets.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, BinaryIO, Final

from kanalyze.capture.live.capture import DEFAULT_GATHER_S, LiveCapture
from kanalyze.cli.messages import print_message
from kanalyze.errors import UsageError
from kanalyze.live.window.snapshot import PIPE

if TYPE_CHECKING:
    import argparse
    from contextlib import ExitStack

    from kanalyze.live.feed.filter_packets import PacketFilter
    from kanalyze.live.run import Feed

__all__ = ["open_feed"]

_SOON_S: Final = 0.1


def open_feed(arguments: argparse.Namespace, chosen: str, stack: ExitStack) -> tuple[Feed, str]:
    """Begin to capture, until ``stack`` is left; return the feed and its name.

    ``chosen`` is the format of what is shown. Raises KanalyzeError and OSError.
    """
    if arguments.interface is None:
        return _pipe(arguments, stack), PIPE
    # Whoever reads rows wants them soon.
    gather_s = _SOON_S if chosen == "rows" else DEFAULT_GATHER_S
    return _interface(arguments, gather_s, stack), f"live:{arguments.interface}"


def _pipe(arguments: argparse.Namespace, stack: ExitStack) -> Feed:
    from kanalyze.capture.io.pipe import PipeCapture

    wanted = _wanted_packets(arguments)
    return _filtered(stack.enter_context(PipeCapture(_standard_input(), name=PIPE)), wanted)


def _interface(arguments: argparse.Namespace, gather_s: float, stack: ExitStack) -> Feed:
    """Listen on an interface; the kernel filters, unless there is nothing to compile that with."""
    from kanalyze.capture.live.interfaces import link_type_of
    from kanalyze.capture.live.kernel_filter import compile_filter, why_not_compiled
    from kanalyze.live.feed.interface_feed import InterfaceFeed

    interface, wanted, text = arguments.interface, None, None
    is_filtered = bool(_filter(arguments) or arguments.port or arguments.host)
    reason = why_not_compiled() if is_filtered else None
    if reason is not None:
        wanted = _wanted_packets(arguments)
    elif is_filtered:
        link_type = link_type_of(interface)
        texts = _conditions(arguments, link_type)
        for condition in texts:
            # Each is one for itself: "tcp) or (udp" is none, though in parentheses it would pass.
            compile_filter(condition, link_type, interface)
        text = " and ".join(f"({condition})" for condition in texts)
    capture = stack.enter_context(
        LiveCapture(interface, filter_text=text, buffer_bytes=arguments.buffer, gather_s=gather_s)
    )
    if reason is not None:
        print_message(f"packets are filtered in the process, after they were copied: {reason}")
    return _filtered(InterfaceFeed(capture, time.monotonic_ns), wanted)


def _conditions(arguments: argparse.Namespace, link_type: int) -> list[str]:
    """Return what has to hold for a packet; raises UsageError."""
    from kanalyze.capture.live.kernel_filter import port_filter

    conditions = [text] if (text := _filter(arguments)) else []
    if arguments.port or arguments.host:
        conditions.append(port_filter(arguments.port, arguments.host, link_type))
    return conditions


def _filter(arguments: argparse.Namespace) -> str:
    """Return the text of the filter; as for tcpdump, an empty one takes everything."""
    return (arguments.filter or "").strip()


def _wanted_packets(arguments: argparse.Namespace) -> PacketFilter | None:
    """Return what filters here; None where all packets are wanted. Raises UsageError."""
    from kanalyze.capture.live.interfaces import RAW_IP
    from kanalyze.live.feed.filter_language import parse_conditions
    from kanalyze.live.feed.filter_packets import PacketFilter

    texts = _conditions(arguments, RAW_IP)  # tags are seen through in any case
    return PacketFilter(parse_conditions(texts)) if texts else None


def _filtered(feed: Feed, wanted: PacketFilter | None) -> Feed:
    if wanted is None:
        return feed
    from kanalyze.live.feed.filtered_feed import FilteredFeed

    return FilteredFeed(feed, wanted)


def _standard_input() -> BinaryIO:
    """Return standard input without a buffer, in which packets would wait."""
    if sys.stdin is None:
        raise UsageError("standard input is closed")
    if sys.stdin.isatty():
        raise UsageError("standard input is a terminal, not a capture")
    return getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
