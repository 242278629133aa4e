"""Reads the tables of facts, independently of the tool that writes the definitions from them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent.parent / "kafka" / "facts"

_LINE = re.compile(r"(?P<indent> +)(?P<name>\S+) (?P<type>\S+) (?P<versions>\S+)(?P<rest>.*)")
_HEAD = re.compile(r"message (?P<name>\S+) (?P<kind>\S+)(?P<rest>.*)")
_EXTRA = re.compile(r' (?P<key>[A-Za-z]+)(?:=(?P<value>""|\S+))?')


class FieldFact(NamedTuple):
    path: str
    """Names from the message down, with dots."""
    type: str
    versions: str
    extras: dict[str, str]


class MessageFact(NamedTuple):
    name: str
    kind: str
    extras: dict[str, str]
    fields: list[FieldFact]


def message_facts() -> list[MessageFact]:
    messages: list[MessageFact] = []
    path: list[str] = []
    for line in (FOLDER / "messages.txt").read_text("utf-8").splitlines():
        if head := _HEAD.fullmatch(line):
            messages.append(MessageFact(head["name"], head["kind"], _extras(head["rest"]), []))
        elif found := _LINE.fullmatch(line):
            depth = len(found["indent"]) // 2
            path[depth - 1 :] = [found["name"]]
            fact = FieldFact(
                ".".join(path), found["type"], found["versions"], _extras(found["rest"])
            )
            messages[-1].fields.append(fact)
        else:
            assert not line, line
    return messages


def rows(name: str) -> list[list[str]]:
    """Return the words of a table's lines, comments left out."""
    lines = (FOLDER / name).read_text("utf-8").splitlines()
    return [line.split() for line in lines if line and not line.startswith("#")]


def bounds(text: str) -> tuple[int, int]:
    """Return the ends of a version range, 32767 where it is open."""
    if match := re.fullmatch(r"(\d+)\+", text):
        return int(match[1]), 32767
    low, high = re.fullmatch(r"(\d+)(?:-(\d+))?", text).groups()  # type: ignore[union-attr]
    return int(low), int(high or low)


def _extras(text: str) -> dict[str, str]:
    return {
        found["key"]: "" if found["value"] == '""' else (found["value"] or "true")
        for found in _EXTRA.finditer(text)
    }
