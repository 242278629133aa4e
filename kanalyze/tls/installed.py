"""Whether the ciphers are installed.

In: nothing. Out: nothing, or one clear line. Must not know: what they are used for.
"""

from __future__ import annotations

import importlib.util

from kanalyze.errors import UsageError

__all__ = ["require_ciphers"]


def require_ciphers() -> None:
    """Raise UsageError unless records can be decrypted."""
    if importlib.util.find_spec("cryptography") is None:
        raise UsageError("decryption needs cryptography: pip install 'kanalyze[tls]'")
