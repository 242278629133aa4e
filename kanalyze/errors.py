"""The exceptions that leave this package.

A bad argument or an unreadable input raises a :class:`KanalyzeError`; its text is one line, fit to
be shown to a person as it stands. Bad *bytes* raise nothing: they become anomalies (see
:mod:`kanalyze.model`) and the analysis goes on.
"""

from __future__ import annotations

__all__ = ["CaptureError", "DefinitionError", "KanalyzeError", "UsageError"]


class KanalyzeError(Exception):
    """What went wrong, in one line; the command line exits with status 2."""


class UsageError(KanalyzeError):
    """An argument makes no sense: an unknown API name, a time that is no time."""


class CaptureError(KanalyzeError):
    """A capture cannot be read at all: missing, empty, not a capture."""


class DefinitionError(KanalyzeError):
    """A message definition breaks the rules of the definition language."""
