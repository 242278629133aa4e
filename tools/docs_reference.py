"""Pages of the reference, made from code: commands, anomalies, metrics, JSON Schemas, Python.

In: the argument parser, the kinds of anomalies, the metrics of `live`, schemas, docstrings. Out:
Markdown.
"""

from __future__ import annotations

import argparse
import inspect
import re
from typing import TYPE_CHECKING, Any

import kanalyze
from kanalyze.api import options as option_types
from kanalyze.cli.arguments import parser
from kanalyze.common import argument_values
from kanalyze.live.metrics import Metrics
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.tables.anomalies import stage_of
from tools.docs_pages import DOCS, between
from tools.json_schema import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

__all__ = ["command_table", "commands", "reference_pages"]

MADE = "Written by `python -m tools.docs`"


def reference_pages() -> dict[Path, str]:
    """Return the pages, and the part of `getting-started.md`, with their texts."""
    folder = DOCS / "reference"
    start = DOCS / "getting-started.md"
    return {
        folder / "commands.md": commands_page(),
        folder / "anomalies.md": anomalies_page(),
        folder / "metrics.md": metrics_page(),
        folder / "json-schema.md": schemas_page(),
        folder / "python.md": python_page(),
        start: between(start.read_text(encoding="utf-8"), "commands", command_table()),
    }


def commands() -> dict[str, tuple[str, argparse.ArgumentParser]]:
    """Return each command's line of help and its parser."""
    [subparsers] = [a for a in parser()._actions if isinstance(a, argparse._SubParsersAction)]
    lines = {action.dest: action.help or "" for action in subparsers._choices_actions}
    return {name: (lines[name], each.parser) for name, each in subparsers.choices.items()}


def command_table() -> str:
    """Return the commands as a table."""
    return table(
        ("command", "what it does"),
        (
            (f"[`{name}`](reference/commands.md#{name})", _sentence(text))
            for name, (text, _) in commands().items()
        ),
    )


def commands_page() -> str:
    """Return the page on commands: each one's arguments, by groups, and examples."""
    parts = [f"# Commands\n\n{MADE} from `kanalyze/spec/commands.py`; `--help` says the same.\n"]
    for name, (text, made) in commands().items():
        parts.append(f"\n## {name}\n\n{_sentence(text)}\n\n")
        for group in made._action_groups:
            rows = [_argument(a) for a in group._group_actions if a.help is not argparse.SUPPRESS]
            rows = [row for row in rows if row[0] != "`-h`, `--help`"]
            if rows:
                title = _TITLES.get(group.title or "", group.title or "")
                parts.append(f"{_sentence(title).rstrip('.')}:\n\n")
                parts.append(table(("argument", "meaning"), rows) + "\n")
        if made.epilog:
            parts.append(f"```text\n{made.epilog.strip()}\n```\n")
    return "".join(parts)


_TITLES = {"options": "options", "positional arguments": "arguments"}


def _argument(action: argparse.Action) -> tuple[str, str]:
    """Return how an argument is written, and what it means."""
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else "")
    if isinstance(value, tuple):
        value = " ".join(value)
    if action.option_strings:
        takes = action.nargs != 0
        name = ", ".join(f"`{option}`" for option in action.option_strings)
        name += f" `{value or action.dest.upper()}`" if takes else ""
    else:
        name = f"`{value or action.dest}`"
    meaning = (action.help or "") % {**vars(action), "prog": "kanalyze"}
    return name, meaning


def anomalies_page() -> str:
    """Return the page on kinds of anomalies."""
    rows = ((f"`{kind.value}`", stage_of(kind), kind.meaning) for kind in AnomalyKind)
    return (
        f"# Anomalies\n\n{MADE} from `kanalyze/model/anomalies.py`. `kanalyze anomalies` lists "
        "everything that is missing or wrong in a capture, one row each; reports have the sums. "
        "[What is missing](../concepts/missing.md) says what becomes of figures.\n\n"
        + table(("kind", "found by", "what it is"), rows)
        + "\nThe columns are those of [the table](../tables.md#anomalies).\n"
    )


def metrics_page() -> str:
    """Return the page on the metrics of `live`."""
    rows = []
    for family in Metrics().collect():
        name = family.name + ("_total" if family.type == "counter" else "")
        labels = ", ".join(f"`{label}`" for label in family._labelnames)
        rows.append((f"`{name}`", family.type, labels or "-", family.documentation))
    return (
        f"# Metrics of live\n\n{MADE} from what `kanalyze live --metrics` serves. A histogram has "
        "the series `_bucket`, `_sum` and `_count`. Names of clients, topics and groups have a "
        "limit; beyond it, items are counted under `other`. "
        "[Live, with Prometheus and Grafana](../guides/prometheus-grafana.md) says how to use "
        "them.\n\n" + table(("metric", "type", "labels", "meaning"), rows)
    )


def schemas_page() -> str:
    """Return the page on JSON Schemas."""
    parts = [
        (
            f"# JSON Schemas\n\n{MADE} from `kanalyze/spec/`. Each file "
            "describes the JSON of a command or a line of `--format jsonl`, with units and what "
            "null means.\n\n"
        ),
        table(
            ("schema", "what it is"),
            (
                (f"[{name}](../schema/{name}.schema.json)", schema.get("description", "a row"))
                for name, schema in SCHEMAS.items()
            ),
        ),
        "\n## Fields of a report\n\n",
        table(
            ("field", "meaning"),
            (
                (f"`{name}`", field.get("description", "-"))
                for name, field in SCHEMAS["report"]["properties"].items()
            ),
        ),
    ]
    return "".join(parts)


def python_page() -> str:
    """Return the page on the library: functions, classes, errors, options."""
    public = {name: getattr(kanalyze, name) for name in kanalyze.__all__ if name[0] != "_"}
    parts = [
        (
            f"# Python\n\n{MADE} from the docstrings of `kanalyze`. "
            "[Python](../python.md) has examples.\n"
        )
    ]
    parts += [_function(name, it) for name, it in public.items() if inspect.isfunction(it)]
    parts.append("\n## Options\n\n")
    functions = [name for name, it in public.items() if inspect.isfunction(it)]
    parts.append(table(("option", "type", "functions"), _options(functions)))
    parts.append("\nThe types are\n\n")
    parts.append(table(("type", "what may be given"), _types()))
    parts.append(
        "\n`FileName` is a path or None, `FileNames` one or several. `Captures` are paths, "
        "folders, globs, URLs, open files, or several of these.\n"
    )
    for name in ("Results", "Rows"):
        parts.append(_class(name, public[name]))
    errors = [it for it in public.values() if isinstance(it, type) and issubclass(it, Exception)]
    parts.append("\n## Errors\n\n")
    parts.append(table(("error", "when"), ((f"`{e.__name__}`", _line(e)) for e in errors)))
    rows = sorted(n for n, it in public.items() if inspect.isclass(it) and issubclass(it, tuple))
    parts.append(
        "\n## Rows as objects\n\nIterating gives "
        + ", ".join(f"`{name}`" for name in rows)
        + ": tuples whose fields are the columns of [the tables](../tables.md).\n"
    )
    return "".join(parts)


def _function(name: str, function: Any) -> str:
    signature = str(inspect.signature(function)).replace("'", "")
    return f"\n## {name}\n\n```text\nkanalyze.{name}{signature}\n```\n\n{_markdown(function)}\n"


def _class(name: str, made: type) -> str:
    parts = [f"\n## {name}\n\n{_markdown(made)}\n"]
    for member, it in vars(made).items():
        if inspect.isfunction(it) and not member.startswith("_"):
            signature = str(inspect.signature(it)).replace("'", "").replace("self", "")
            parts.append(f"\n### {member}\n\n`{member}{signature}`\n\n{_markdown(it)}\n")
    return "".join(parts)


def _options(functions: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Give each option of functions, its type, and the functions that have it."""
    types: dict[str, str] = {}
    takers: dict[str, list[str]] = {}
    for name in functions:
        signature = str(inspect.signature(getattr(kanalyze, name)))
        if (found := re.search(r"Unpack\[(\w+)\]", signature)) is None:
            continue
        made = getattr(option_types, found[1])
        for option in made.__optional_keys__:
            kind = made.__annotations__[option]
            types[option] = getattr(kind, "__forward_arg__", str(kind))
            takers.setdefault(option, []).append(f"`{name}`")
    for option in sorted(types):
        yield f"`{option}`", f"`{types[option]}`", ", ".join(takers[option])


def _types() -> Iterator[tuple[str, str]]:
    """Give the names of types of options, and what they stand for."""
    for name in ("Texts", "Apis", "Numbers", "Ports", "Addresses", "Moment", "Duration"):
        spelled = getattr(argument_values, name).replace("_Address", argument_values._Address)
        yield f"`{name}`", f"`{spelled}`"


_SECTION = re.compile(r"^(Args|Returns|Raises|Yields|Attributes):$")
_ROLE = re.compile(r":\w+:`~?([^`]+)`")


def _markdown(documented: Any) -> str:
    """Return a docstring as Markdown: sections as bold words, their entries as a list."""
    lines: list[str] = []
    section = False
    for line in inspect.getdoc(documented).splitlines():
        if found := _SECTION.match(line):
            lines += [f"**{found[1]}**", ""]
            section = True
        elif section and re.match(r"^    \S", line):
            name, colon, rest = line.strip().partition(": ")
            code = re.fullmatch(r"[\w*, ]+", name) and colon
            lines.append(f"- `{name}`: {rest}" if code else f"- {line.strip()}")
        elif section and line.startswith("     "):
            lines.append(f"    {line.strip()}")
        else:
            section = section and not line
            lines.append(line)
    text = _ROLE.sub(lambda role: f"`{role[1].removeprefix('kanalyze.')}`", "\n".join(lines))
    return text.replace("``", "`")


def _line(documented: Any) -> str:
    return _ROLE.sub(r"`\1`", (inspect.getdoc(documented) or "").splitlines()[0])


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *map(list, rows)]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |\n"
        for line in lines
    )
