"""``kanalyze anonymize``: a capture without names, addresses and contents."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kanalyze.anonymization.anonymize import Anonymization, key_of
from kanalyze.cli.analyze import LeftOutReporter, catalog_of
from kanalyze.cli.console import print_message
from kanalyze.cli.output_checks import output_files
from kanalyze.cli.progress import progress_of
from kanalyze.common.paths import regular_bytes
from kanalyze.errors import UsageError, reason_of
from kanalyze.export.files import STANDARD_OUTPUT, OutputFile
from kanalyze.render.units import counted

if TYPE_CHECKING:
    import argparse

    from kanalyze.anonymization.anonymize import Anonymized

__all__ = ["anonymize"]

DIFFERENT = 1
_FILE = "@"


def anonymize(arguments: argparse.Namespace) -> int:
    """Write a capture without names, addresses and contents; raises KanalyzeError and OSError.

    Returns 1 if more than names differs in it, else 0.
    """
    limits = {} if arguments.max_memory is None else {"max_memory_bytes": arguments.max_memory}
    anonymization = Anonymization(
        arguments.captures,
        key_of(_key(arguments.key)),
        strips_records=arguments.strip_records,
        ports=arguments.port,
        catalog=catalog_of(arguments),
        leave_out=LeftOutReporter(),
        outputs=output_files(arguments),
        **limits,
    )
    # Times and sizes may still say something about a network to those who know it, so only the
    # owner may read the file.
    output = partial(OutputFile, arguments.output, private=True, replaces_captures=arguments.force)
    progress = progress_of(arguments, arguments.output, is_streamed=True)
    with progress.shown(), progress.reading(anonymization, "reading and writing"):
        done = anonymization.run(output)
        if regular_bytes(arguments.output) is not None:
            check = anonymization.check(arguments.output)
            with progress.reading(check, "comparing"):
                done = done._replace(differences=check.differences())
    if arguments.output != STANDARD_OUTPUT:
        sys.stdout.write(f"{_text(done, arguments.output)}\n")
    if done.differences is None:
        print_message(f"{arguments.output}: not compared with the captures: it is no file")
    for line in done.differences or ():
        print_message(f"{arguments.output}: more than names differs: {line}")
    return DIFFERENT if done.differences else 0


def _key(text: str | None) -> bytes | None:
    """Return the key: the text of ``--key``, or the content of the file that it names."""
    if text is None or not text.startswith(_FILE):
        return None if text is None else text.encode("utf-8", "surrogateescape")
    try:
        return Path(text[1:]).read_bytes().strip()
    except (OSError, ValueError) as error:
        raise UsageError(f"--key: {text[1:]}: {reason_of(error)}") from error


def _text(done: Anonymized, destination: str) -> str:
    text = (
        f"{destination}: {counted(done.packets, 'packet')}, {counted(done.messages, 'message')} on "
        f"{counted(done.connections, 'Kafka connection')}"
    )
    if done.unread_messages:
        text += f"; {done.unread_messages:,} could not be read to the end: their rest is blanked"
    if done.unread_batches:
        text += f"; {done.unread_batches:,} batches of records are blanked completely"
    return text
