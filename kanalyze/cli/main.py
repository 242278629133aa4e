"""The entry point: runs a command, returns its exit status, reports an error in one line.

In: arguments. Out: the exit status: 0; 1 if ``compare --fail-on`` found something, or if more than
names differs in what ``anonymize`` wrote; 2 for a wrong argument, input or output, or a package
that is not installed; 130 if interrupted, 143 if terminated. This module must not import anything
slow before it knows the command, nor anything at all that the handlers of signals do not need
before they are set.
"""

from __future__ import annotations

import codecs
import errno
import gc
import os
import sys

from kanalyze.cli import interruption

TYPE_CHECKING = False
if TYPE_CHECKING:  # see interruption.py
    import argparse
    from collections.abc import Sequence
    from typing import TextIO

FAILED = 2

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_ESCAPES = "kanalyze.escaped"
_PLAIN = dict(zip("\u2502\u2026\u2191\u2192\u2193\u00b5", "|~^>vu", strict=True)) | dict(
    zip("\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588", "__..==##", strict=True)
)
"""Replacements for layout characters (lines, arrows, bars) that the encoding lacks."""
_MODULES = {
    **dict.fromkeys(("requests", "connections", "anomalies"), "row_commands"),
    **dict.fromkeys(("decode", "records"), "message_commands"),
    **dict.fromkeys(("extract", "anonymize"), "capture_commands"),
    **dict.fromkeys(("flows", "save"), "sql"),
}
"""The module of each command that is not in a module of its own name."""
_SOURCES = {
    **{name: name for name in ("numpy", "pyarrow", "duckdb", "rich", "cramjam", "crc32c")},
    **{name: name for name in ("lz4", "shtab")},
    "backports": "backports.zstd",
    "pandas": "kanalyze[pandas]",
    "polars": "kanalyze[polars]",
    **dict.fromkeys(("fsspec", "aiohttp"), "kanalyze[remote]"),
    "pyspark": "kanalyze[spark]",
    **dict.fromkeys(("scapy", "prometheus_client"), "kanalyze[live]"),
    "cryptography": "kanalyze[tls]",
    **dict.fromkeys(("fastavro", "google", "grpc_tools"), "kanalyze[schemas]"),
    "opentelemetry": "kanalyze[otlp]",
    **dict.fromkeys(("mcp", "pydantic"), "kanalyze[mcp]"),
    "deltalake": "kanalyze[delta]",
    **dict.fromkeys(("pyiceberg", "sqlalchemy"), "kanalyze[iceberg]"),
}
"""What pip has to install, by the top-level name of the missing module."""


def run() -> None:
    """Run the command of this process, then end the process."""
    interruption.end_at_signals()
    _set_up_process()
    status = main(sys.argv[1:], owns_process=True)
    interruption.ignore_signals()
    # At exit, Python would search for cycles, which takes 27 ms. Not with DuckDB: its binding
    # reports frozen objects as leaks.
    if "_duckdb" not in sys.modules:
        gc.freeze()
    sys.exit(status)


def _set_up_process() -> None:
    """Set up the process, before modules that depend on it are imported."""
    from kanalyze.common.garbage_collection import collect_rarely

    collect_rarely()
    # NumPy's linear algebra, which is not used, would start a thread for each core (20 to 60 ms).
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Arrow's own allocators keep 25 MB more of freed memory.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def main(argv: Sequence[str], *, owns_process: bool = False) -> int:
    """Run a command and return its exit status; raises only SystemExit of argparse.

    ``owns_process``: whether the process runs nothing else.
    """
    from kanalyze.errors import KanalyzeError

    # A process may be started without these streams.
    sys.stdout = _tolerant(sys.stdout)
    sys.stderr = _tolerant(sys.stderr)
    try:
        arguments = _parsed(argv)
        arguments.owns_process = owns_process
        status = _run_command(arguments)
        sys.stdout.flush()
    except KanalyzeError as error:
        return _fail(str(error))
    except BrokenPipeError:
        # The reader of standard output closed it: nothing more can be written, not even when the
        # interpreter exits.
        _discard_output()
        return 0
    except OSError as error:
        _discard_output()
        return _fail(_os_error_text(error))
    except ModuleNotFoundError as error:
        text = text_of_missing_package(error)
        if text is None:
            raise  # a module of kanalyze is missing: the traceback shows where
        return _fail(text)
    except MemoryError:
        _discard_output()
        return _fail("out of memory: use a smaller --max-memory, or --jobs 1")
    except KeyboardInterrupt as interrupt:
        _discard_output()
        return getattr(interrupt, "status", interruption.INTERRUPTED)
    return status


def _parsed(argv: Sequence[str]) -> argparse.Namespace:
    """Return the arguments; raises SystemExit of argparse, and OSError if help is not written."""
    from kanalyze.cli.arguments import parser

    try:
        return parser().parse_args(argv)
    finally:
        sys.stdout.flush()


def _run_command(arguments: argparse.Namespace) -> int:
    """Import only the command's module and run it: imports take most of a short command's time."""
    from importlib import import_module

    from kanalyze.cli.console import print_message
    from kanalyze.cli.output_checks import check_outputs
    from kanalyze.common.compiled import is_compiled, is_pure_wanted

    if not is_compiled() and not is_pure_wanted():
        print_message("not compiled, so it is slow; install a wheel, or build it with a C compiler")
    command = arguments.command
    if command == "batch":
        interruption.raise_at_signals()
    if command == "sql":
        from kanalyze.cli.sql import split_query

        split_query(arguments)
    check_outputs(arguments)
    if command == "live" and arguments.list:
        _list_interfaces()
        return 0
    module = import_module(f"kanalyze.cli.{_MODULES.get(command, command)}")
    status: int | None = getattr(module, command)(arguments)
    return status or 0


def _list_interfaces() -> None:
    """Write a line for each interface; raises CaptureError and OSError."""
    from kanalyze.capture.live.interfaces import interfaces
    from kanalyze.common.texts import escape

    for interface in interfaces():
        state = "up" if interface.is_up else "down"
        # The name of an interface may have control characters.
        addresses = " ".join(interface.addresses)
        text = f"{escape(interface.name):16} {state:5} {interface.description}  {addresses}"
        sys.stdout.write(text.rstrip() + "\n")


def _fail(text: str) -> int:
    from kanalyze.cli.console import print_message

    print_message(text)
    return FAILED


def text_of_missing_package(error: ModuleNotFoundError) -> str | None:
    """Return what is missing and how to install it; None if kanalyze does not use the package."""
    import shlex

    package = (error.name or "").partition(".")[0]
    source = _SOURCES.get(package)
    # A shell would take brackets for a pattern.
    return source and f"{package} is not installed: pip install {shlex.quote(source)}"


def _os_error_text(error: OSError) -> str:
    from kanalyze.errors import reason_of

    reason = reason_of(error)
    # Of all files, only standard output has no name in its errors.
    name = error.filename or ("standard output" if error.errno in _FULL else None)
    return f"{name}: {reason}" if name else reason


def _tolerant(stream: TextIO | None) -> TextIO:
    """Let a stream escape characters that its encoding does not have."""
    if stream is None:
        from pathlib import Path  # imported late: slow, and seldom needed

        return Path(os.devnull).open("w", encoding="utf-8")
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        codecs.register_error(_ESCAPES, _escaped)
        reconfigure(errors=_ESCAPES)
    return stream


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Return a replacement for a character that the encoding lacks.

    Layout characters get one of the same width, so that tables stay aligned; others are escaped.
    """
    assert isinstance(error, UnicodeEncodeError)
    char = error.object[error.start]
    if char in _PLAIN:
        return _PLAIN[char], error.start + 1
    return char.encode("ascii", "backslashreplace").decode("ascii"), error.start + 1


def _discard_output() -> None:
    from contextlib import suppress

    with suppress(OSError, ValueError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)
