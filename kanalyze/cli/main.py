"""The entry point: a command, its exit status, and one line for whatever went wrong.

In: arguments. Out: an exit status: 0; 2 when an argument, an input or an output is no good; 130
when interrupted. This module must not import anything slow before it knows the command.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from kanalyze.cli.arguments import parser
from kanalyze.cli.messages import print_message
from kanalyze.common.compiled import is_compiled, is_pure_wanted
from kanalyze.errors import KanalyzeError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

__all__ = ["main", "run"]

FAILED = 2
INTERRUPTED = 130

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_OBJECTS_BETWEEN_COLLECTIONS = 100_000


def run() -> None:
    """Run the command that the process was given, and end the process."""
    _set_up_process()
    status = main(sys.argv[1:])
    # Python looks for cycles on its way out (27 ms); what is left goes with the process.
    gc.freeze()
    sys.exit(status)


def _set_up_process() -> None:
    """Settle what holds for the whole process, before anything is imported that heeds it."""
    # Rows are many small objects in no cycles; looking for cycles among them took a third of the
    # time of a command (requests on small requests: 3.4 s, of which 1.1 s).
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, 50, 100)
    # NumPy's linear algebra starts a thread for each core when it is imported (20 to 60 ms), and
    # nothing here has use for one.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Arrow's own allocators keep some 25 MB more of what was freed.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def main(argv: Sequence[str]) -> int:
    """Run a command and return its exit status; never raises but SystemExit from argparse."""
    # A process may be started without them.
    sys.stdout = _tolerant(sys.stdout)
    sys.stderr = _tolerant(sys.stderr)
    arguments = parser().parse_args(argv)
    if not is_compiled() and not is_pure_wanted():
        print_message(
            "not compiled: it will run slowly (installed where it can be compiled, it is faster)"
        )
    try:
        _run_command(arguments)
        sys.stdout.flush()
    except KanalyzeError as error:
        return _fail(str(error))
    except BrokenPipeError:
        # Whoever read standard output has seen enough. Nothing more can be written to it, not
        # even by the interpreter on its way out.
        _discard_output()
        return 0
    except OSError as error:
        _discard_output()
        return _fail(_os_error_text(error))
    except MemoryError:
        _discard_output()
        return _fail("out of memory; a smaller --max-memory or --jobs 1 takes less")
    except KeyboardInterrupt:
        _discard_output()
        return INTERRUPTED
    return 0


def _run_command(arguments: argparse.Namespace) -> None:
    from kanalyze.cli.output_checks import check_outputs

    check_outputs(arguments)
    if arguments.command == "report":
        from kanalyze.cli.report import report

        report(arguments)
    elif arguments.command == "records":
        from kanalyze.cli.records import records

        records(arguments)
    elif arguments.command == "decode":
        from kanalyze.cli.decode import decode

        decode(arguments)
    elif arguments.command == "connections":
        from kanalyze.cli.connections import connections

        connections(arguments)
    elif arguments.command == "anomalies":
        from kanalyze.cli.anomalies import anomalies

        anomalies(arguments)
    elif arguments.command == "live" and arguments.list:
        from kanalyze.cli.interfaces import list_interfaces

        list_interfaces()
    elif arguments.command == "live":
        from kanalyze.cli.live import live

        live(arguments)
    elif arguments.command == "batch":
        from kanalyze.cli.batch import batch

        batch(arguments)
    elif arguments.command == "protocol":
        from kanalyze.cli.protocol import protocol

        protocol(arguments)
    else:
        from kanalyze.cli.requests import requests

        requests(arguments)


def _fail(text: str) -> int:
    print_message(text)
    return FAILED


def _os_error_text(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    # Other files say their names themselves, what is printed goes to one that does not.
    name = error.filename or ("standard output" if error.errno in _FULL else None)
    return f"{name}: {reason}" if name else reason


def _tolerant(stream: TextIO | None) -> TextIO:
    """Return a stream that writes escapes for what its encoding does not have."""
    if stream is None:
        from pathlib import Path  # slow to import, and hardly any process comes by here

        return Path(os.devnull).open("w", encoding="utf-8")
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
    return stream


def _discard_output() -> None:
    with suppress(OSError, ValueError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)
