"""The exceptions that leave this package, and what the system says of an error.

A bad argument or an unreadable input raises a :class:`KanalyzeError`, whose text is one line that
can be shown to users. Bad *bytes* raise nothing: they become anomalies (see
:mod:`kanalyze.model`) and the analysis goes on.
"""

from __future__ import annotations


class KanalyzeError(Exception):
    """What went wrong, in one line; the command line exits with status 2."""


class UsageError(KanalyzeError):
    """An argument is invalid, such as an unknown API name, or text that is not a time."""


class CaptureError(KanalyzeError):
    """A capture cannot be read at all: missing, empty, not a capture."""


class DefinitionError(KanalyzeError):
    """A message definition breaks the rules of the definition language."""


def reason_of(error: Exception) -> str:
    """Return what the system says of an error, without its number and the name of a file."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
