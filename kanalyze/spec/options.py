"""Options: how each is spelled in the shell, and what it means.

In: nothing. Out: :class:`Option`, which reads a spelling. Which options a command has is in
:mod:`kanalyze.spec.commands`, filters of rows are in :mod:`kanalyze.spec.filters`.

An option is spelled as in the usage of a command. In Python it has the same name, with underscores;
in Spark the same without them, in which case does not matter.
"""

from __future__ import annotations

MAX_JOBS = 256
MAX_RECORDS = 2**31 - 1
"""The record count in a batch header has 32 bits."""
MAX_PORT = 65535
SORTS = ("requests", "errors", "bytes", "p50", "p90", "p99", "max")
"""The figures by which the lines of a report's tables can be sorted, in descending order."""

_ARGUMENTS = {"CAPTURE": "captures", "-": "pipe"}
"""Names of arguments that are not those of their values."""
_FILES = ("FILE", "DIR", "PATH", "FOLDER", "CAPTURE", "A", "B")
"""Names of values that are files or folders; what follows a point is an ending."""


class Option:
    """An option, or an argument without a flag.

    Its spelling is

    - ``--errors``: a flag without a value,
    - ``-o, --output FILE``: with a value,
    - ``--format {text,json}``: with one of these values, which may have a name before them,
    - ``--api NAME ...``: with a value; may be repeated,
    - ``--follow [SECONDS]``: with a value that may be left out,
    - ``CAPTURE ...``: an argument, or several; ``[API]`` may be left out.
    """

    def __init__(self, spelling: str, text: str) -> None:
        """Read a spelling; ``text`` is the meaning, for the help."""
        self.spelling = spelling
        self.text = text
        words = spelling.split()
        if spelling.endswith("]"):
            first = next(index for index, word in enumerate(words) if word.startswith("["))
            words[first:] = [word.strip("[]") for word in words[first:]]
        self.is_optional = spelling.endswith("]")
        """Whether an argument, or the value of an option, may be left out."""
        self.is_repeated = words[-1] == "..."
        self.flags = [word.rstrip(",") for word in words if word.startswith("-") and word != "-"]
        values = [word for word in words[len(self.flags) :] if word != "..."]
        self.value = values[0] if values else None
        """The name of the value; None for a flag."""
        named = self.flags[-1].lstrip("-") if self.flags else str(self.metavar)
        self.name = _ARGUMENTS.get(named, named.replace("-", "_").lower())
        """The name in Python."""

    @property
    def help(self) -> str:
        """The meaning, and whether the option may be repeated."""
        may_be_repeated = bool(self.flags) and self.is_repeated
        return f"{self.text}; may be repeated" if may_be_repeated else self.text

    @property
    def choices(self) -> list[str] | None:
        """The possible values; None if there are others."""
        _, brace, values = str(self.value).partition("{")
        return values.rstrip("}").split(",") if brace else None

    @property
    def is_file(self) -> bool:
        """True if the value is a file or a folder."""
        return not self.choices and str(self.value).partition(".")[0] in _FILES

    @property
    def metavar(self) -> str | None:
        """What stands for the value in the help; None for a flag, and if its choices do."""
        return (self.value or "").partition("{")[0] or None
