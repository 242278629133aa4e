"""Whether the package with the ciphers is installed.

In: nothing. Out: True or False, or an error of one line.
"""

from __future__ import annotations

import importlib.util

from kanalyze.errors import UsageError

__all__ = ["are_ciphers_installed", "require_ciphers"]


def are_ciphers_installed() -> bool:
    """Return true if records can be decrypted."""
    return importlib.util.find_spec("cryptography") is not None


def require_ciphers() -> None:
    """Raise UsageError unless records can be decrypted."""
    if not are_ciphers_installed():
        raise UsageError("decryption needs cryptography: pip install 'kanalyze[tls]'")
