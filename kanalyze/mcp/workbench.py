"""Runs commands of kanalyze over the captures of some folders, for somebody who is not trusted.

In: names of captures, options, a query. Out: the lines that a command writes, up to a limit.

Each command is a process of its own: it cannot hang, fill the memory of the server or end it. It
reads what :class:`Workbench` has prepared: the tables of the captures in a saved file. A query of
a saved file can read and write no other file (``queries/saved.py``), and has no contents of
records, because these are not saved.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from kanalyze.api.name_files import read_names
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError
from kanalyze.queries.saved import ROWS, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

_CAPTURE = re.compile(r"\.(pcap|pcapng|cap)(\.(gz|zst|xz|bz2|lz4))?$", re.IGNORECASE)
PRINCIPAL_COLUMNS = ("principal", "tls_client_certificate_subject")
"""Columns of tables that say who has logged in."""
_PRINCIPAL_FIELDS = re.compile(r"principal|user|owner|renewer|requester|entityName", re.IGNORECASE)
"""Fields of messages that name users, as ``decode`` spells them."""
_HIDDEN = "hidden"
_MESSAGE_BYTES = 10_000
_ENDINGS = {"save": ".duckdb", "anonymize": ".pcapng"}
"""Of the files that are made once."""


class Limits(NamedTuple):
    """What an answer may take."""

    rows: int
    seconds: int
    characters: int = 200_000


_WHOLE = Limits(rows=1_000_000, seconds=600, characters=50_000_000)
"""For an answer of which only a part is passed on."""


class CommandOutput(NamedTuple):
    """What a command wrote."""

    lines: list[str]
    is_whole: bool
    """Whether these are all lines."""
    messages: list[str]
    """What it wrote to standard error."""


class Workbench:
    """The captures of some folders, and what was made of them; a ``with`` block removes that."""

    def __init__(
        self,
        folders: Sequence[str],
        limits: Limits,
        *,
        anonymizes: bool,
        shows_principals: bool,
        names: Sequence[str] = (),
    ) -> None:
        """Take the folders, which must exist.

        Args:
            folders: where the captures are, in them and below.
            limits: what an answer may take.
            anonymizes: whether names and addresses are replaced first, by ``kanalyze anonymize``.
            shows_principals: whether the tables keep the names of users.
            names: files with names of addresses.

        Raises UsageError for a folder or a file of names that cannot be read, and for names of
        addresses that are replaced.
        """
        if names and anonymizes:
            raise UsageError("--anonymous replaces the addresses that --names names")
        read_names(names)  # an error in them is that of the server, not of each answer
        self.names = names
        self._folders = [Path(folder).resolve() for folder in folders]
        for folder in self._folders:
            if not folder.is_dir():
                raise UsageError(f"{folder}: not a folder")
        self._limits = limits
        self._anonymizes = anonymizes
        self._shows_principals = shows_principals
        self._scratch = tempfile.TemporaryDirectory(prefix="kanalyze-mcp-")
        self._made: dict[tuple[object, ...], str] = {}
        self._making = threading.Lock()

    def __enter__(self) -> Workbench:
        return self

    def __exit__(self, *_: object) -> None:
        self._scratch.cleanup()

    def captures(self) -> list[dict[str, Any]]:
        """Return name, bytes and time of the last change of each capture, by name."""
        return [
            {"name": name, "bytes": path.stat().st_size, "changed_s": int(path.stat().st_mtime)}
            for name, path in sorted(self._files().items())
        ]

    def _files(self) -> dict[str, Path]:
        """Return the captures by their names below their folders.

        A link that leads out of its folder is none of them.
        """
        found: dict[str, Path] = {}
        for folder in self._folders:
            for path in sorted(folder.rglob("*")):
                # A link to itself has no file, and cannot be resolved.
                is_capture = _CAPTURE.search(path.name) and path.is_file()
                if is_capture and path.resolve().is_relative_to(folder):
                    found.setdefault(str(path.relative_to(folder)), path)
        return found

    def chosen(self, names: Sequence[str]) -> list[Path]:
        """Return the captures with these names, or all; raises UsageError for other names."""
        files = self._files()
        for name in names:
            if name not in files:
                raise UsageError(f"no capture {name[:100]!r} in the folders")
        paths = [files[name] for name in names] if names else list(files.values())
        if not paths:
            raise UsageError("the folders have no capture")
        return paths

    # -- commands ---------------------------------------------------------------------------------

    def run(
        self,
        command: str,
        captures: Sequence[str],
        *words: str,
        query: Sequence[str] = (),
        reads_packets: bool = False,
        is_whole: bool = False,
    ) -> CommandOutput:
        """Return what a command writes about captures.

        Args:
            command: the command.
            captures: names of captures; none for all.
            words: options of the command.
            query: its argument behind the captures.
            reads_packets: whether it reads packets, not tables.
            is_whole: whether a part of the answer is of no use.

        Raises UsageError with what the command says if it fails, or takes too long.
        """
        chosen = self.chosen(captures)
        inputs = list(map(str, chosen))
        if self._anonymizes:
            inputs = [self._once("anonymize", chosen, inputs)]
        if not reads_packets:
            inputs = [self._once("save", chosen, inputs)]
        limits = _WHOLE if is_whole else self._limits
        named = [f"--names={file}" for file in self.names]
        answer = self._answer(limits, command, *named, *words, "--", *inputs, *query)
        if is_whole and not answer.is_whole:
            raise UsageError("the answer is too long: use filters")
        return answer

    def _answer(self, limits: Limits, *words: str) -> CommandOutput:
        with (
            tempfile.TemporaryFile() as errors,
            subprocess.Popen(  # noqa: S603 - this Python; words are no options: see --
                [sys.executable, "-m", "kanalyze", *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "COLUMNS": "120"},
            ) as process,
        ):
            timer = threading.Timer(limits.seconds, process.kill)
            timer.start()
            try:
                assert process.stdout is not None
                lines, is_whole = _first(process.stdout, limits)
                if not is_whole:
                    process.kill()
                status = process.wait()
                in_time = timer.is_alive()
            finally:
                timer.cancel()
                process.kill()
            errors.seek(0)
            messages = errors.read(_MESSAGE_BYTES).decode("utf-8", "replace").splitlines()
        if not in_time:
            raise UsageError(f"took more than {limits.seconds} s: ask for less")
        if is_whole and status:
            raise UsageError("\n".join(messages) or f"failed with status {status}")
        return CommandOutput(lines, is_whole, messages)

    def _once(self, command: str, captures: Sequence[Path], inputs: Sequence[str]) -> str:
        """Return the file that a command writes of ``inputs``, which are captures or made of them.

        It is made when somebody first asks for these captures, and may take as long as it takes.
        Raises UsageError.
        """
        key = command, *map(_version, captures)
        with self._making:
            if key in self._made:
                return self._made[key]
            target = str(Path(self._scratch.name, f"{len(self._made)}{_ENDINGS[command]}"))
            words = [command, "--no-progress", "-o", target, "--", *inputs]
            done = subprocess.run(  # noqa: S603 - this Python; words are no options: see --
                [sys.executable, "-m", "kanalyze", *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise UsageError(done.stderr.strip() or f"failed with status {done.returncode}")
            if command == "save" and not self._shows_principals:
                _forget_principals(target)
            self._made[key] = target
            return target


def _first(stream: IO[bytes], limits: Limits) -> tuple[list[str], bool]:
    """Return the lines that an answer may have, and whether these are all."""
    lines: list[str] = []
    room = limits.characters
    # A line that is longer than all that may be shown is not read to its end.
    while line := stream.readline(4 * room + 1):
        text = line.decode("utf-8", "replace").rstrip("\n")
        room -= len(text)
        if room < 0 or len(lines) == limits.rows:
            return lines, False
        lines.append(text)
    return lines, True


def _version(path: Path) -> tuple[str, int, int]:
    """Return what changes when a file does."""
    status = path.stat()
    return str(path), status.st_size, status.st_mtime_ns


def _forget_principals(saved: str) -> None:
    """Remove the names of users from the tables of a saved file."""
    import duckdb

    with duckdb.connect(saved) as connection:
        stored = connection.execute(
            "SELECT table_name, column_name FROM duckdb_columns()"
            " WHERE schema_name = ? AND list_contains(?, column_name)",
            [ROWS, list(PRINCIPAL_COLUMNS)],
        ).fetchall()
        for table, name in stored:
            # The names are our own.
            connection.execute(f"UPDATE {ROWS}.{quoted(table)} SET {quoted(name)} = NULL")  # noqa: S608


def without_principals(line: str) -> str:
    """Return a line of ``kanalyze decode`` with ``hidden`` in place of the names of users."""
    return json.dumps(_without(json.loads(line)))


def _without(value: Any) -> Any:
    if isinstance(value, list):
        return [_without(item) for item in value]
    if isinstance(value, dict):
        return {
            name: _HIDDEN
            if isinstance(item, str) and _PRINCIPAL_FIELDS.search(name)
            else _without(item)
            for name, item in value.items()
        }
    return value
