"""Runs the blocks of code in Markdown pages, and compares what they print with what the page says.

In: the text of a page. Out: the same text with the outputs of its commands as they are now, or
:class:`BlockError`. Blocks run in a scratch folder, in the order of the page. Comments before a
block say how it is meant:

- ``<!-- output -->``: this block is what the block before it prints. ``output from "X"`` begins
  with the first line that contains X; ``output to "Y"`` ends before the first one after it that
  contains Y, ``output 5 lines`` after 5 lines. What is left out at the end is a line ``...``.
- ``<!-- same as FILE -->``: this block is a file of the repository, such as what a test expects.
- ``<!-- file: NAME -->``: the block is a file that the next commands read.
- ``<!-- written: WHY -->``: text that nothing prints, such as another language's code.
- ``<!-- status 1 -->``: the last command of the block ends with this exit status.
- ``<!-- not run: REASON -->``: the block needs what a test does not have. Its commands of kanalyze
  are parsed, its Python is compiled.
- ``<!-- blocks not run: REASON -->``, anywhere: the same for every block of the page.

A page names the captures that its commands read: "`broker.pcap` is `captures/basics.pcap`". Names
that begin with ``captures/`` are those of the repository.
"""

from __future__ import annotations

import ast
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kanalyze.cli.arguments import parser
from kanalyze.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "Block",
    "BlockError",
    "blocks_of",
    "command_lines",
    "kanalyze_arguments",
    "run_page",
    "with_outputs",
]

ROOT = Path(__file__).resolve().parent.parent
SHELLS = ("sh", "bash")
WIDTH = "100"
_FENCE = re.compile(r"^```(\w*)$")
_COMMENT = re.compile(r"^<!-- (.+) -->$")
_CAPTURE = re.compile(r"`([\w./-]+)` is\s+`(captures/[\w./-]+)`")
_REPOSITORY_FILE = re.compile(r"(?<![\w/])captures/[\w.-]+(?:/[\w.-]+)*\.\w+")
_NEEDS_A_SHELL = re.compile(r"[|<>;&$`]")
_QUOTED = re.compile(r"'[^']*'|\"[^\"$`]*\"")
_OUTPUT = re.compile(
    r'output(?: from "(?P<first>.+?)")?(?: to "(?P<end>.+?)")?(?: (?P<n>\d+) lines)?'
)


class BlockError(Exception):
    """A block of a page does not do what the page says; the text begins with page and line."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    first_line: int
    """The line of the fence that opens it, from 1."""
    marks: tuple[str, ...]
    """The comments right before it, without their signs."""

    def mark(self, word: str) -> str | None:
        """Return the comment that begins with a word, or null."""
        return next((mark for mark in self.marks if mark.split(":")[0].split()[0] == word), None)

    @property
    def reason_not_to_run(self) -> str | None:
        """Why the block is not run, or null if it is."""
        mark = next((mark for mark in self.marks if mark.startswith("not run: ")), None)
        return mark and mark.removeprefix("not run: ")


def blocks_of(text: str) -> list[Block]:
    """Return the fenced blocks of a page in their order."""
    made: list[Block] = []
    marks: list[str] = []
    inside: tuple[str, int] | None = None
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        fence = _FENCE.match(line)
        if inside is not None:
            if fence is None:
                lines.append(line)
                continue
            made.append(Block(inside[0], "".join(f"{x}\n" for x in lines), inside[1], (*marks,)))
            inside, marks, lines = None, [], []
        elif fence is not None:
            inside = fence[1], number
        elif comment := _COMMENT.match(line):
            marks.append(comment[1])
        else:
            marks = []
    return made


def command_lines(text: str) -> list[str]:
    """Return the commands of a shell block: continued and quoted lines joined, no comments."""
    found: list[str] = []
    command = ""
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        command += re.sub(r"(^|\s)#.*", "", line).rstrip()
        try:
            words = shlex.split(command)
        except ValueError:  # a quotation that goes on
            command += "\n"
            continue
        if words:
            found.append(command)
        command = ""
    return found


def kanalyze_arguments(line: str) -> Iterator[list[str]]:
    """Give the arguments of each ``kanalyze COMMAND`` within a line of shell."""
    for part in re.split(r"\|\|?|&&|;|[<>]\S*|\$\(|\)", line):
        words = shlex.split(part.strip().strip('"'))
        for at, word in enumerate(words[:-1]):
            follows = words[at + 1]
            if Path(word).name == "kanalyze" and (follows in _COMMANDS or follows == "--version"):
                yield words[at + 1 :]
                break


def captures_of(text: str) -> dict[str, Path]:
    """Return the captures that a page reads: their names on the page, and their files."""
    named = {name: ROOT / file for name, file in _CAPTURE.findall(text)}
    blocks = "".join(block.text for block in blocks_of(text) if block.language in _RUN)
    return named | {name: ROOT / name for name in _REPOSITORY_FILE.findall(blocks)}


def run_page(page: Path, folder: Path) -> str:
    """Run the blocks of a page in a folder and return the page with their outputs.

    Raises BlockError if a command fails, or an option or a capture does not exist.
    """
    text = page.read_text(encoding="utf-8")
    for name, file in captures_of(text).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            raise BlockError(f"{page.name}: there is no {file.relative_to(ROOT)}")
        shutil.copyfile(file, folder / name)
    skip_all = "<!-- blocks not run: " in text
    run = _Run(page.name, folder)
    lines = text.splitlines()
    # From the last to the first, so that numbers of lines before stay right.
    replaced: list[tuple[Block, str]] = []
    for block in blocks_of(text):
        if skip_all or block.reason_not_to_run:
            run.look_at(block)
        elif (output := run.block(block)) is not None:
            replaced.append((block, output))
    for block, output in reversed(replaced):
        first = block.first_line
        lines[first : first + block.text.count("\n")] = output.splitlines()
    return "\n".join(lines) + "\n"


def with_outputs(text: str, written: str) -> str:
    """Return a page with the outputs of another version of it, in their order."""
    outputs = [block.text for block in blocks_of(written) if block.mark("output")]
    places = [block for block in blocks_of(text) if block.mark("output")]
    lines = text.splitlines()
    for place, output in reversed(list(zip(places, outputs, strict=False))):
        first = place.first_line
        lines[first : first + place.text.count("\n")] = output.splitlines()
    return "\n".join(lines) + "\n"


class _Run:
    """Runs the blocks of one page; remembers what the last one printed, and Python's names."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._folder = folder
        self._printed = ""
        self._names: dict[str, Any] = {"__name__": "__main__"}

    def block(self, block: Block) -> str | None:
        """Run a block; return its text if it is an output, or a file."""
        mark = block.mark("output")
        if mark is not None:
            return self._excerpt(block, mark)
        same = block.mark("same")
        if same is not None:
            return (ROOT / same.removeprefix("same as ")).read_text(encoding="utf-8")
        file = block.mark("file")
        if file is not None:
            path = self._folder / file.removeprefix("file: ")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.language in SHELLS:
            self._shell(block)
        elif block.language == "python":
            self._python(block)
        return None

    def look_at(self, block: Block) -> None:
        """Check what can be checked of a block that is not run."""
        if block.language == "python":
            ast.parse(block.text)
        if block.language not in SHELLS:
            return
        for line in command_lines(block.text):
            for arguments in kanalyze_arguments(line):
                self._parse(block, arguments)

    def _parse(self, block: Block, arguments: list[str]) -> None:
        told = io.StringIO()
        with redirect_stderr(told), redirect_stdout(told):
            try:
                parser().parse_args(arguments)
            except SystemExit as ended:
                if ended.code:
                    raise self._error(block, told.getvalue()) from ended

    def _shell(self, block: Block) -> None:
        printed, status = "", 0
        wanted = int((block.mark("status") or "status 0").split()[1])
        commands = command_lines(block.text)
        for line in commands:
            text, status = self._line(line)
            printed += text
            if status != (wanted if line == commands[-1] else 0):
                raise self._error(block, f"{line}: status {status}\n{text}")
        self._printed = printed

    def _line(self, line: str) -> tuple[str, int]:
        words = shlex.split(line)
        if words[0] == "kanalyze" and not _NEEDS_A_SHELL.search(_QUOTED.sub("", line)):
            return self._in_process(words[1:])
        environment = {
            **os.environ,
            "COLUMNS": WIDTH,
            "TZ": "UTC",
            "PYTHONPATH": str(ROOT),
            "PYTHON": sys.executable,
        }
        done = subprocess.run(
            [
                "bash",
                "-eo",
                "pipefail",
                "-c",
                f'kanalyze() {{ "$PYTHON" -c "{_START}" "$@"; }}\n{line}',
            ],
            cwd=self._folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        return done.stdout.decode("utf-8"), done.returncode

    def _in_process(self, arguments: Sequence[str]) -> tuple[str, int]:
        raw = io.BytesIO()
        stream = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
        with (
            chdir(self._folder),
            _environment(COLUMNS=WIDTH, TZ="UTC"),
            redirect_stdout(stream),
            redirect_stderr(stream),
        ):
            try:
                status = main(arguments)
            except SystemExit as ended:
                status = int(ended.code or 0)
        return raw.getvalue().decode("utf-8"), status

    def _python(self, block: Block) -> None:
        told = io.StringIO()
        code = compile("\n" * block.first_line + block.text, self._name, "exec")
        with chdir(self._folder), _environment(COLUMNS=WIDTH, TZ="UTC"), redirect_stdout(told):
            exec(code, self._names)
        self._printed = told.getvalue()

    def _excerpt(self, block: Block, mark: str) -> str:
        asked = _OUTPUT.fullmatch(mark)
        if asked is None:
            raise self._error(block, f"unclear: {mark}")
        lines = [line.rstrip() for line in self._printed.splitlines()]
        first = self._place(block, lines, asked["first"], 0)
        end = self._place(block, lines, asked["end"], first + 1) if asked["end"] else len(lines)
        end = min(end, first + int(asked["n"])) if asked["n"] else end
        shown = lines[first:end]
        while shown and not shown[-1]:
            shown.pop()
        more = any(lines[end:])
        return "".join(f"{line}\n" for line in (*shown, *(["..."] if more else [])))

    def _place(self, block: Block, lines: Sequence[str], text: str | None, after: int) -> int:
        if text is None:
            return after
        for at in range(after, len(lines)):
            if text in lines[at]:
                return at
        raise self._error(block, f"no line of the output has {text!r}")

    def _error(self, block: Block, text: str) -> BlockError:
        return BlockError(f"{self._name}:{block.first_line}: {text}")


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Set variables for a while, without a key log of who runs this."""
    before = dict(os.environ)
    os.environ.update(values)
    os.environ.pop("SSLKEYLOGFILE", None)
    time.tzset()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        time.tzset()


_START = "from kanalyze.cli.main import run; run()"
_RUN = (*SHELLS, "python")
_COMMANDS = {
    name
    for action in parser()._actions
    if isinstance(action.choices, dict)
    for name in action.choices
}
