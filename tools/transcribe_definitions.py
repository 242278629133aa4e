"""Writes the packaged message definitions and tables from the tables of facts.

    python tools/transcribe_definitions.py PATH/messages.txt

In: ``messages.txt``, and ``superseded.txt``, ``apikeys.txt`` and ``errors.txt`` beside it. Out,
under ``kanalyze/kafka/schema``: one definition file an API (request, then response) or other
message in ``definitions/``, those of layouts that only some releases had in
``definitions/superseded/``, and the tables ``api_table.py`` and ``error_table.py``. The same facts
give the same files, to the byte.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PACKAGE = Path(__file__).resolve().parent.parent / "kanalyze" / "kafka" / "schema"
WIDTH = 110
OPEN_END = 32767

REMARKS = {
    "EndQuorumEpochRequest": "Version 0 had another layout in release 2.7.",
    "ConsumerGroupHeartbeatRequest": "Version 0 had another layout in 3.5 and 3.6, where it was"
    " unstable.",
    "ConsumerGroupDescribeResponse": "Version 0 had another layout in release 3.7.",
    "ReadShareGroupStateSummaryResponse": "Version 0 had another layout in 3.9 and 4.0.",
    "ApiVersionsResponse": "Some tagged fields of version 3 came after its first release.",
    "FetchRequest": "Some tagged fields of version 15 came after its first release.",
    "FetchResponse": "Some tagged fields of version 12 came after its first release.",
    "UpdateMetadataRequest": "Some tagged fields of version 8 came after its first release.",
}
"""What the facts say beside their tables: versions whose bytes changed between releases."""

Range = tuple[int, int]


@dataclass
class Fact:
    """A line of messages.txt: a field, with the fields indented below it."""

    name: str
    type: str
    versions: str
    extras: dict[str, str]
    fields: list[Fact] = field(default_factory=list)

    @property
    def struct(self) -> str:
        """The type without ``[]``."""
        return self.type.removeprefix("[]")


@dataclass
class MessageFact:
    """A block of messages.txt."""

    name: str
    kind: str
    extras: dict[str, str]
    fields: list[Fact]


def read_messages(text: str) -> list[MessageFact]:
    """Read every block."""
    return [_message(block.splitlines()) for block in text.strip().split("\n\n")]


def _message(lines: Sequence[str]) -> MessageFact:
    _, name, kind, *extras = lines[0].split()
    top: list[Fact] = []
    nesting = [top]
    for line in lines[1:]:
        depth = (len(line) - len(line.lstrip())) // 2
        words = line.split()
        fact = Fact(words[0], words[1], words[2], _extras(words[3:]))
        del nesting[depth:]
        nesting[-1].append(fact)
        nesting.append(fact.fields)
    return MessageFact(name, kind, _extras(extras), top)


def _extras(words: Sequence[str]) -> dict[str, str]:
    pairs = (word.partition("=") for word in words)
    return {key: value.removeprefix('""') if mark else "true" for key, mark, value in pairs}


# Structs that stand in more than one place become commonStructs where one set of fields serves.


def common_structs(message: MessageFact) -> dict[str, list[Fact]]:
    """Return, by name, the fields of every struct that stands twice and can be declared once."""
    places: dict[str, list[Fact]] = defaultdict(list)
    for fact in _walk(message.fields):
        if fact.fields:
            places[fact.struct].append(fact)
    common: dict[str, list[Fact]] = {}
    for name, facts in places.items():
        if len(facts) > 1:
            merged = _merge([fact.fields for fact in facts])
            if merged is not None and all(_serves(merged, fact) for fact in facts):
                common[name] = merged
    return common


def _walk(fields: Sequence[Fact]) -> Iterator[Fact]:
    for fact in fields:
        yield fact
        yield from _walk(fact.fields)


def _merge(places: Sequence[Sequence[Fact]]) -> list[Fact] | None:
    """Join the fields of a struct's places: versions united, order kept; None if they clash."""
    merged: list[Fact] = []
    for fields in places:
        at = 0
        for fact in fields:
            index = next((i for i, known in enumerate(merged) if known.name == fact.name), None)
            if index is None:
                merged.insert(at, fact)
                at += 1
                continue
            known = merged[index]
            if index < at or (known.type, known.extras) != (fact.type, fact.extras):
                return None
            inner = _merge([known.fields, fact.fields])
            versions = _unite(parse_range(known.versions), parse_range(fact.versions))
            if inner is None or versions is None:
                return None
            merged[index] = replace(known, versions=show_range(versions), fields=inner)
            at = index + 1
    return merged


def _serves(merged: Sequence[Fact], place: Fact) -> bool:
    """Whether the merged fields, seen in the versions of ``place``, are those of the place."""
    around = parse_range(place.versions)
    seen = [
        (fact.name, _both(around, parse_range(fact.versions)))
        for fact in merged
        if _both(around, parse_range(fact.versions)) is not None
    ]
    return seen == [(fact.name, parse_range(fact.versions)) for fact in place.fields]


def parse_range(text: str) -> Range:
    """Read ``N``, ``N-M`` or ``N+``."""
    if text.endswith("+"):
        return int(text[:-1]), OPEN_END
    low, _, high = text.partition("-")
    return int(low), int(high or low)


def show_range(versions: Range) -> str:
    """Write what :func:`parse_range` reads."""
    low, high = versions
    if high == OPEN_END:
        return f"{low}+"
    return str(low) if low == high else f"{low}-{high}"


def _unite(one: Range, other: Range) -> Range | None:
    (low, low_end), (high, high_end) = sorted((one, other))
    return (low, max(low_end, high_end)) if high <= low_end + 1 else None


def _both(one: Range, other: Range) -> Range | None:
    low, high = max(one[0], other[0]), min(one[1], other[1])
    return (low, high) if low <= high else None


# Writing definitions.


def show_message(message: MessageFact) -> str:
    """Write one message object with its comment."""
    common = common_structs(message)
    lines = [f"// {line}" for line in _comments(message)]
    extras = message.extras
    head: list[tuple[str, object]] = []
    if "apiKey" in extras:
        head.append(("apiKey", int(extras["apiKey"])))
    head.append(("type", message.kind))
    if "listeners" in extras:
        head.append(("listeners", extras["listeners"].split(",")))
    head.append(("name", message.name))
    head += [(key, extras[key]) for key in ("validVersions", "flexibleVersions")]
    if "latestVersionUnstable" in extras:
        head.append(("latestVersionUnstable", True))
    lines.append("{")
    lines += [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head]
    lines += _list("fields", message.fields, common, last=not common)
    if common:
        lines.append('  "commonStructs": [')
        for number, (name, fields) in enumerate(common.items(), 1):
            lines.append(f'    {{ "name": {json.dumps(name)}, "fields": [')
            lines += _fields(fields, 6, common)
            lines.append("    ]}" + ("," if number < len(common) else ""))
        lines.append("  ]")
    return "\n".join([*lines, "}"]) + "\n"


def _comments(message: MessageFact) -> Iterator[str]:
    current = message.extras["current"]
    if "releases" in message.extras:
        releases = " and ".join(message.extras["releases"].split(","))
        yield f"{message.name}: version {current} as it was in {releases} alone."
    elif current == "none":
        yield f"{message.name}: removed in Kafka 4.0."
    else:
        low, _, high = current.partition("-")
        yield f"{message.name}: the newest release speaks {show_range((int(low), int(high)))}."
    if "formerNames" in message.extras:
        yield f"Called {message.extras['formerNames']} in earlier releases."
    if message.name in REMARKS and "releases" not in message.extras:
        yield REMARKS[message.name]


def _list(
    name: str, fields: Sequence[Fact], common: dict[str, list[Fact]], *, last: bool
) -> list[str]:
    end = "" if last else ","
    if not fields:
        return [f'  "{name}": []{end}']
    return [f'  "{name}": [', *_fields(fields, 4, common), f"  ]{end}"]


def _fields(fields: Sequence[Fact], indent: int, common: dict[str, list[Fact]]) -> list[str]:
    lines: list[str] = []
    for fact in fields:
        lines += _field(fact, indent, common)
        lines[-1] += ","
    lines[-1] = lines[-1].removesuffix(",")
    return lines


def _field(fact: Fact, indent: int, common: dict[str, list[Fact]]) -> list[str]:
    extras = fact.extras
    pairs: list[tuple[str, object]] = [
        ("name", fact.name),
        ("type", fact.type),
        ("versions", fact.versions),
    ]
    names = {"nullable": "nullableVersions", "flexibleVersions": "flexibleVersions"}
    pairs += [(names[key], extras[key]) for key in names if key in extras]
    if "tag" in extras:
        pairs += [("tag", int(extras["tag"])), ("taggedVersions", extras["taggedVersions"])]
    if "mapKey" in extras:
        pairs.append(("mapKey", True))
    pairs += [(key, extras[key]) for key in ("default", "entityType") if key in extras]
    unknown = set(extras) - {*names, "tag", "taggedVersions", "mapKey", "default", "entityType"}
    if unknown:
        raise SystemExit(f"{fact.name}: unknown {sorted(unknown)}")
    texts = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in pairs]
    inline = bool(fact.fields) and fact.struct not in common
    lines = _wrap(texts, indent, ', "fields": [' if inline else " }")
    if inline:
        lines += [*_fields(fact.fields, indent + 2, common), " " * indent + "]}"]
    return lines


def _wrap(texts: Sequence[str], indent: int, end: str) -> list[str]:
    """Put texts on one line, or on as many as the width asks for."""
    lines = [" " * indent + "{ " + texts[0]]
    for text in texts[1:]:
        if len(lines[-1]) + len(text) + len(end) + 3 > WIDTH:
            lines[-1] += ","
            lines.append(" " * (indent + 2) + text)
        else:
            lines[-1] += ", " + text
    lines[-1] += end
    return lines


# The tables.


def api_table(text: str, superseded: Sequence[MessageFact]) -> str:
    """Write api_table.py from apikeys.txt and the messages of superseded.txt."""
    lines = text.splitlines()
    releases = lines[0].removeprefix("#").split()[3:10]
    releases = [name.partition("(")[0].removeprefix("v") for name in releases]
    rows = [line.split() for line in lines[1:] if line and not line.startswith("#")]
    shown = []
    for row in rows:
        rest = [text.removeprefix("<=") for text in row[3:]]
        spoken, flexible_and_first = rest[:7], rest[7:10]
        shown.append(" ".join((*row[:3], *flexible_and_first, *spoken, *row[-2:])))
    return (
        '"""The APIs of Kafka, written from the tables of facts by '
        "tools/transcribe_definitions.py.\n\n"
        "In: nothing. Out: plain text for :mod:`kanalyze.kafka.schema.catalog`. Must not import\n"
        'anything: it is loaded at every start.\n"""\n\n'
        "from __future__ import annotations\n\n"
        f"RELEASES = {_words(releases)}\n"
        '"""The releases whose versions a row gives."""\n\n'
        'APIS = """\\\n' + "\n".join(shown) + '\n"""\n'
        '"""A row an API, by rising key: key, name, versions, version from which requests are\n'
        "flexible, version from which responses are, release it was first seen in (2.2 is the\n"
        "oldest looked at), versions by release, listeners, unstable versions by release (``-``\n"
        'for none)."""\n\n'
        f"SUPERSEDED = {{\n{_superseded(superseded)}}}\n"
        '"""The messages of which a version had another layout in some releases, by key and kind:'
        '\nthose releases."""\n'
    )


def _superseded(messages: Sequence[MessageFact]) -> str:
    return "".join(
        f"    ({message.extras['apiKey']}, {json.dumps(message.kind)}): "
        f"{_words(message.extras['releases'].split(','))},\n"
        for message in messages
    )


def _words(words: Sequence[str]) -> str:
    shown = ", ".join(json.dumps(word) for word in words)
    return f"({shown},)" if len(words) == 1 else f"({shown})"


def error_table(text: str) -> str:
    """Write error_table.py from errors.txt."""
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    shown = "".join(
        f"    {code}: ({json.dumps(name)}, {retriable == 'true'}),\n"
        for code, name, retriable, *_ in rows
    )
    return (
        '"""The error codes of Kafka, written from the tables of facts by '
        "tools/transcribe_definitions.py.\n\n"
        "In: nothing. Out: plain values for :mod:`kanalyze.kafka.schema.error_codes`. Must not\n"
        'import anything: it is loaded at every start.\n"""\n\n'
        "from __future__ import annotations\n\n"
        "ERRORS = {\n" + shown + "}\n"
        '"""Name, and whether a client may retry, by code."""\n'
    )


def file_names(messages: Sequence[MessageFact]) -> dict[str, list[MessageFact]]:
    """Return what stands in each definition file, in order."""
    files: dict[str, list[MessageFact]] = defaultdict(list)
    for message in messages:
        if "apiKey" in message.extras:
            api = message.name.removesuffix("Request").removesuffix("Response")
            files[f"{int(message.extras['apiKey']):03d}_{api}.json"].append(message)
        else:
            files[f"{message.kind}_{message.name}.json"].append(message)
    return files


def write_definitions(facts: Path, folder: Path) -> None:
    """Write the definition files of a table of facts, and remove all others."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.json"):
        old.unlink()
    for name, messages in file_names(read_messages(facts.read_text("utf-8"))).items():
        order = sorted(messages, key=lambda message: message.kind)
        text = "\n".join(show_message(message) for message in order)
        (folder / name).write_text(text, "utf-8")


def main(arguments: Sequence[str]) -> int:
    """Write everything; returns the exit status."""
    if len(arguments) != 1:
        print("usage: transcribe_definitions.py PATH/messages.txt", file=sys.stderr)
        return 2
    facts = Path(arguments[0])
    write_definitions(facts, PACKAGE / "definitions")
    superseded = facts.parent / "superseded.txt"
    write_definitions(superseded, PACKAGE / "definitions" / "superseded")
    apis = api_table(
        (facts.parent / "apikeys.txt").read_text("utf-8"),
        read_messages(superseded.read_text("utf-8")),
    )
    (PACKAGE / "api_table.py").write_text(apis, "utf-8")
    errors = error_table((facts.parent / "errors.txt").read_text("utf-8"))
    (PACKAGE / "error_table.py").write_text(errors, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
