"""Adds TLS secrets to a capture: those of the sessions in it, and no others.

In: a pcapng file, and a key log. Out: the file with a block of secrets before its packets. This
module must not know which packets were selected.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, BinaryIO

from kanalyze.capture.formats.pcapng_encoder import decryption_secrets, section_header
from kanalyze.runtime.pipeline import Analysis
from kanalyze.tls.keylog import TLS_KEY_LOG

if TYPE_CHECKING:
    from kanalyze.tls.keylog import KeyLog

__all__ = ["copy_with_secrets"]


def copy_with_secrets(packets: BinaryIO, target: BinaryIO, key_log: KeyLog) -> None:
    """Copy a capture that kanalyze wrote, with the secrets of the sessions in it.

    Args:
        packets: the capture; it is read from its beginning, twice.
        target: where to write.
        key_log: secrets of any sessions; it notes which of them are used.

    Raises:
        OSError: a file cannot be read or written.
    """
    packets.seek(0)
    for _ in Analysis([packets], keylog=key_log).batches():
        pass
    lines = b"".join(key_log.used_lines(set()))
    head = section_header()
    packets.seek(len(head))
    target.write(head)
    if lines:
        target.write(decryption_secrets(TLS_KEY_LOG, lines))
    shutil.copyfileobj(packets, target)
