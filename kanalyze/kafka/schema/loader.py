"""Reads message definitions, of a text or of a user's folder, and reports what is wrong with them.

In: the text of a definition file: JSON objects one after the other, with ``//`` comments. Out:
:class:`~kanalyze.kafka.schema.schema_ast.MessageSpec` values that keep every rule of the language.

The rules are those of Kafka's generator (org.apache.kafka.message: MessageSpec, StructSpec,
FieldSpec), but for two: a struct may be declared in more than one place of a message, and a range
with an upper end may not go past ``validVersions``. All that Kafka has published keeps to them.

A folder may hold what a Kafka source tree has in clients/src/main/resources/common/message: JSON
files of one message or more. Requests, responses and ``data`` messages are used. Headers, whose
layout a user cannot change, and messages that don't travel in requests are checked, then ignored.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import DefinitionError
from kanalyze.kafka.schema.schema_ast import (
    FIXED_SIZES,
    NONE,
    PRIMITIVES,
    ZERO_UUID,
    Default,
    Field,
    MessageSpec,
    Struct,
    VersionRange,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


_INTEGERS = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "uint32": (0, (1 << 32) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
}
_INTEGER_TEXT = re.compile(r"-?(?:0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20})\Z")
_ENTITY_TYPES = {
    "transactionalId": "string",
    "producerId": "int64",
    "groupId": "string",
    "topicName": "string",
    "brokerId": "int32",
}
_IMPLIED: dict[str, Default] = {
    "bool": False,
    "float64": 0.0,
    "uuid": ZERO_UUID,
    "string": "",
    "bytes": b"",
    "records": None,
}


def parse_default(kind: str, declared: object) -> tuple[Default, bool]:
    """Return the default of a field of type ``kind`` and whether it is null.

    ``declared`` is the definition's ``default``: a text, a JSON number or boolean, or None if there
    is none. Raises ValueError if it is no value of the type.
    """
    if declared is None:
        return (0 if kind in _INTEGERS else _IMPLIED.get(kind)), kind == "records"
    text = str(declared).lower() if isinstance(declared, bool) else str(declared)
    is_null = text == "null"
    if is_null and kind not in FIXED_SIZES:
        return None, True
    value = _parse_value(kind, text)
    return value, False


def _parse_value(kind: str, text: str) -> Default:
    if kind in _INTEGERS:
        return _parse_integer(kind, text)
    if kind == "string":
        return text
    if kind == "bool" and text in ("true", "false"):
        return text == "true"
    if kind == "float64" and _is_float(text):
        return float(text)
    if text == "" and kind in ("bytes", "uuid"):
        return _IMPLIED[kind]
    raise ValueError(f"default {text!r} is no value of type {kind}")


def _parse_integer(kind: str, text: str) -> int:
    lowest, highest = _INTEGERS[kind]
    if _INTEGER_TEXT.match(text):
        value = int(text, 16 if "x" in text.lower() else 10)
        if lowest <= value <= highest:
            return value
    raise ValueError(f"default {text!r} is no value of type {kind}")


def _is_float(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def check_fields(
    fields: Sequence[Field], struct_versions: VersionRange, flexible: VersionRange
) -> tuple[str, str] | None:
    """Return the name of the first field that breaks a rule, and the rule; None if none does.

    ``struct_versions`` are the versions that have the struct, ``flexible`` the message's flexible
    ones.
    """
    problems = (*_repeated_names(fields), *_tag_gaps(fields))
    for problem in problems:
        return problem
    for field in fields:
        for reason in _field_problems(field, struct_versions, flexible):
            return field.name, reason
    return None


def _repeated_names(fields: Sequence[Field]) -> Iterator[tuple[str, str]]:
    names: set[str] = set()
    for field in fields:
        if field.json_name in names:
            yield field.name, "a field of that name stands in the struct already"
        names.add(field.json_name)


def _tag_gaps(fields: Sequence[Field]) -> Iterator[tuple[str, str]]:
    tags: dict[int, str] = {}
    for field in fields:
        if field.tag is None:
            continue
        if field.tag in tags:
            yield field.name, f"tag {field.tag} is taken by {tags[field.tag]}"
        tags[field.tag] = field.name
    for expected, tag in enumerate(sorted(tags)):
        if tag != expected:
            yield tags[tag], f"tag {tag} is used before tag {expected}"
            return


def _field_problems(
    field: Field, struct_versions: VersionRange, flexible: VersionRange
) -> Iterator[str]:
    yield from _null_problems(field)
    yield from _tag_problems(field, struct_versions, flexible)
    if field.flexible_versions is not None and field.type not in ("string", "bytes"):
        yield "only a field of type string or bytes may have flexibleVersions of its own"
    if field.map_key and (field.is_array or field.struct is not None):
        yield f"a field of type {field.type} cannot be a map key"
    yield from _entity_problems(field)


def _null_problems(field: Field) -> Iterator[str]:
    nullable = field.nullable_versions
    if not nullable.is_empty and field.element_type in FIXED_SIZES and not field.is_array:
        yield f"a field of type {field.type} cannot be nullable"
    if not nullable.is_empty and field.versions.intersect(nullable).is_empty:
        # Kafka's own definitions sometimes go beyond ``versions``, which has no effect.
        yield f"nullableVersions {nullable} lie outside versions {field.versions}"
    if field.has_null_default and field.type != "records" and nullable.is_empty:
        yield "the default is null, but no version is nullable"


def _tag_problems(
    field: Field, struct_versions: VersionRange, flexible: VersionRange
) -> Iterator[str]:
    tagged = field.tagged_versions
    if field.tag is None:
        if not tagged.is_empty:
            yield "taggedVersions without a tag"
        return
    if tagged.is_empty:
        yield "a tag without taggedVersions"
    if not tagged.is_open:
        yield "taggedVersions must be open-ended"
    if not field.versions.covers(tagged):
        yield f"taggedVersions {tagged} lie outside versions {field.versions}"
    if not flexible.covers(tagged.intersect(struct_versions)):
        yield f"taggedVersions {tagged} need flexible versions, which are {flexible}"
    nullable = field.nullable_versions.intersect(tagged)
    if nullable not in (tagged, field.nullable_versions.intersect(VersionRange(0, -1))):
        yield "either all tagged versions must be nullable, or none"


def _entity_problems(field: Field) -> Iterator[str]:
    if field.entity_type is None:
        return
    expected = _ENTITY_TYPES.get(field.entity_type)
    if expected is None:
        yield f"unknown entityType {field.entity_type!r}"
    elif field.element_type != expected:
        yield f"entityType {field.entity_type} is for type {expected}, not {field.type}"


MAX_NESTING = 8
"""How deep structs may nest; Kafka has 4 at most."""

MAX_FIELDS = 10_000
"""Most fields of a message. A common struct's fields count at each use. Kafka has 120 at most."""

_MESSAGE_KEYS = frozenset(
    (
        *("about", "apiKey", "commonStructs", "deprecatedVersions", "fields", "flexibleVersions"),
        *("latestVersionUnstable", "listeners", "name", "type", "validVersions"),
    )
)
_FIELD_KEYS = frozenset(
    (
        *("about", "default", "entityType", "fields", "flexibleVersions", "ignorable", "mapKey"),
        *("name", "nullableVersions", "tag", "taggedVersions", "type", "versions", "zeroCopy"),
    )
)
_STRUCT_KEYS = frozenset({"about", "fields", "name", "versions"})
_KINDS = frozenset(
    (
        *("coordinator-key", "coordinator-value", "data", "header", "metadata", "request"),
        "response",
    )
)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*\Z")
_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*')

_Object = dict[str, Any]


def load_messages(text: str, file: str) -> tuple[MessageSpec, ...]:
    """Read every message in ``text``; ``file`` is its name for error messages.

    Raises DefinitionError with file, field path and reason.
    """
    return tuple(_MessageReader(file, entry).message() for entry in _objects(text, file))


def _objects(text: str, file: str) -> list[_Object]:
    """Split the text into its top-level JSON objects."""
    uncommented = _STRING_OR_COMMENT.sub(_blank_comment, text)
    decoder = json.JSONDecoder(object_pairs_hook=_without_repeats)
    objects: list[_Object] = []
    position = _skip_space(uncommented, 0)
    while position < len(uncommented):
        try:
            entry, end = decoder.raw_decode(uncommented, position)
        except RecursionError:
            raise DefinitionError(f"{file}: nested too deeply") from None
        except ValueError as error:
            reason = " ".join(str(error).split())
            raise DefinitionError(f"{file}: not the JSON of a message: {reason}") from None
        if not isinstance(entry, dict):
            raise DefinitionError(f"{file}: a message must be a JSON object")
        objects.append(entry)
        position = _skip_space(uncommented, end)
    return objects


def _blank_comment(match: re.Match[str]) -> str:
    text = match.group()
    return " " * len(text) if text.startswith("//") else text


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def _without_repeats(pairs: list[tuple[str, Any]]) -> _Object:
    """Return the pairs as a dict; raises ValueError for a key that has two different values."""
    entry: _Object = {}
    for key, value in pairs:
        if entry.setdefault(key, value) != value:
            raise ValueError(f"duplicate key {key!r}")
    return entry


class _JsonObjects:
    """Reads typed values from the JSON objects of a file; errors say where the value is."""

    def __init__(self, file: str) -> None:
        self._file = file

    def versions(
        self, entry: _Object, key: str, at: str, default: VersionRange | None = None
    ) -> VersionRange:
        """Return the versions under a key, or the default; raises DefinitionError for neither."""
        if key not in entry:
            if default is None:
                raise self.error(at, f"{key} is missing")
            return default
        return self.version_range(entry[key], at)

    def version_range(self, text: object, at: str) -> VersionRange:
        """Parse a range of versions."""
        try:
            return VersionRange.parse(str(text))
        except ValueError as error:
            raise self.error(at, str(error)) from None

    def objects_in(
        self, entry: _Object, key: str, at: str, *, optional: bool = False
    ) -> list[_Object]:
        """Return the list of objects under a key."""
        items = entry.get(key, [] if optional else None)
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise self.error(at, f"{key} must be a list of objects")
        return items

    def text(self, entry: _Object, key: str, at: str) -> str:
        """Return the text under a key, which must not be empty."""
        text = entry.get(key)
        if not isinstance(text, str) or not text:
            raise self.error(at, f"{key} must be a text")
        if key == "name" and not _NAME.match(text):
            raise self.error(at, f"not a name: {text!r}")
        return text

    def optional_text(self, entry: _Object, key: str, at: str) -> str | None:
        """Return the text under a key; None if there is none."""
        text = entry.get(key)
        if text is not None and not isinstance(text, str):
            raise self.error(at, f"{key} must be a text")
        return text

    def flag(self, entry: _Object, key: str, at: str) -> bool:
        """Return the boolean under a key, or its text; False if there is none."""
        flag = entry.get(key, False)
        if flag in ("true", "false"):
            return bool(flag == "true")
        if not isinstance(flag, bool):
            raise self.error(at, f"{key} must be true or false")
        return flag

    def check_keys(self, entry: _Object, valid_keys: frozenset[str], at: str) -> None:
        """Raise DefinitionError for a key that is not known."""
        unknown = sorted(set(entry) - valid_keys)
        if unknown:
            raise self.error(at, f"unknown key {unknown[0]!r}")

    def error(self, at: str, reason: str) -> DefinitionError:
        """Make the error for a place of the file."""
        return DefinitionError(f"{self._file}: {at}: {reason}")


class _MessageReader(_JsonObjects):
    """Turns one JSON object into a message."""

    def __init__(self, file: str, entry: _Object) -> None:
        super().__init__(file)
        self._entry = entry
        self._name = ""
        self._common: dict[str, list[_Object]] = {}
        self._common_walked: set[str] = set()
        self._count = 0
        self._valid = NONE
        self._flexible = NONE

    def message(self) -> MessageSpec:
        entry = self._entry
        self._name = self.text(entry, "name", "(message)")
        where = self._name
        self.check_keys(entry, _MESSAGE_KEYS, where)
        kind = self.text(entry, "type", where)
        if kind not in _KINDS:
            raise self.error(where, f"unknown message type {kind!r}")
        self._valid = self.versions(entry, "validVersions", where)
        self._flexible = self.versions(entry, "flexibleVersions", where, self._valid)
        self._check_message_versions(where)
        self._read_common_structs(where)
        # A removed API has a definition without fields.
        own = self.objects_in(entry, "fields", where, optional=self._valid.is_empty)
        fields = self._fields(own, where, self._valid, ())
        return MessageSpec(
            name=self._name,
            kind=kind,
            api_key=self._api_key(kind, where),
            valid_versions=self._valid,
            deprecated_versions=self.versions(entry, "deprecatedVersions", where, NONE),
            flexible_versions=self._flexible,
            struct=Struct(self._name, fields),
            listeners=self._listeners(where),
            latest_version_unstable=self.flag(entry, "latestVersionUnstable", where),
        )

    def _check_message_versions(self, where: str) -> None:
        if self._valid.is_open:
            raise self.error(where, "validVersions must have an upper end")
        flexible = self._entry.get("flexibleVersions", "none")
        if flexible != "none" and not str(flexible).endswith("+"):
            raise self.error(where, "flexibleVersions must be none or open-ended")

    def _api_key(self, kind: str, where: str) -> int | None:
        key = self._entry.get("apiKey")
        if kind not in ("request", "response"):
            if key is not None and kind in ("header", "data"):
                raise self.error(where, f"a message of type {kind} has no apiKey")
            return None
        if type(key) is not int or not 0 <= key <= 32767:
            raise self.error(where, "apiKey must be a number from 0 to 32767")
        return key

    def _listeners(self, where: str) -> tuple[str, ...]:
        listeners = self._entry.get("listeners", [])
        if not isinstance(listeners, list) or not all(isinstance(item, str) for item in listeners):
            raise self.error(where, "listeners must be a list of texts")
        return tuple(listeners)

    def _read_common_structs(self, where: str) -> None:
        for entry in self.objects_in(self._entry, "commonStructs", where, optional=True):
            name = self.text(entry, "name", f"{where}.commonStructs")
            at = f"{where}.commonStructs.{name}"
            self.check_keys(entry, _STRUCT_KEYS, at)
            if name in self._common or name in PRIMITIVES:
                raise self.error(at, "a struct or a type of that name exists already")
            self._common[name] = self.objects_in(entry, "fields", at)
        for name in sorted(self._common):
            self._walk_struct(name, ())

    def _walk_struct(self, name: str, outer_structs: tuple[str, ...]) -> None:
        """Refuse a common struct that holds itself: such a message would have no end."""
        if name in outer_structs:
            raise self.error(f"{self._name}.commonStructs.{name}", "the struct contains itself")
        if len(outer_structs) > MAX_NESTING:
            raise self.error(f"{self._name}.commonStructs.{name}", "structs nest too deeply")
        if name in self._common_walked:
            return
        for inner in _struct_types(self._common[name]):
            if inner in self._common:
                self._walk_struct(inner, (*outer_structs, name))
        self._common_walked.add(name)

    def _fields(
        self,
        entries: list[_Object],
        where: str,
        struct_versions: VersionRange,
        outer_structs: tuple[str, ...],
    ) -> tuple[Field, ...]:
        """Read the fields of a struct that exists in the versions ``struct_versions``."""
        if len(outer_structs) > MAX_NESTING:
            raise self.error(where, "structs nest too deeply")
        self._count += len(entries)
        if self._count > MAX_FIELDS:
            raise self.error(where, f"the message has more than {MAX_FIELDS} fields")
        fields = tuple(self._field(item, where, struct_versions, outer_structs) for item in entries)
        problem = check_fields(fields, struct_versions, self._flexible)
        if problem is not None:
            name, reason = problem
            raise self.error(f"{where}.{name}", reason)
        return fields

    def _field(
        self,
        entry: _Object,
        where: str,
        struct_versions: VersionRange,
        outer_structs: tuple[str, ...],
    ) -> Field:
        name = self.text(entry, "name", f"{where}.(field)")
        at = f"{where}.{name}"
        self.check_keys(entry, _FIELD_KEYS, at)
        kind = self.text(entry, "type", at)
        versions = self.versions(entry, "versions", at)
        self._check_inside_valid(versions, at)
        inner_versions = struct_versions.intersect(versions)
        struct = self._struct(entry, kind, at, inner_versions, outer_structs)
        default, is_null = self._default(entry, kind, at)
        flexible = entry.get("flexibleVersions")
        return Field(
            name=name,
            type=kind,
            versions=versions,
            nullable_versions=self.versions(entry, "nullableVersions", at, NONE),
            tag=self._tag(entry, at),
            tagged_versions=self.versions(entry, "taggedVersions", at, NONE),
            flexible_versions=None if flexible is None else self.version_range(flexible, at),
            default=default,
            has_null_default=is_null,
            struct=struct,
            map_key=self.flag(entry, "mapKey", at),
            ignorable=self.flag(entry, "ignorable", at),
            entity_type=self.optional_text(entry, "entityType", at),
            about=self.optional_text(entry, "about", at) or "",
        )

    def _check_inside_valid(self, versions: VersionRange, at: str) -> None:
        """Refuse versions above the message's newest one; an open end means up to that one.

        Versions below its oldest one are allowed: Kafka's own definitions keep removed versions.
        """
        highest = self._valid.highest
        if self._valid.is_empty or versions.is_empty:
            return
        if versions.lowest > highest or (versions.highest > highest and not versions.is_open):
            raise self.error(at, f"versions {versions} lie outside validVersions {self._valid}")

    def _struct(
        self,
        entry: _Object,
        kind: str,
        at: str,
        struct_versions: VersionRange,
        outer_structs: tuple[str, ...],
    ) -> Struct | None:
        element = kind.removeprefix("[]")
        if element in PRIMITIVES:
            if "fields" in entry:
                raise self.error(at, f"a field of type {kind} has no fields")
            if kind == "[]records":
                raise self.error(at, "records cannot stand in an array")
            return None
        if "fields" in entry:
            if element in self._common:
                raise self.error(at, f"struct {element} is declared in commonStructs already")
            inner = self.objects_in(entry, "fields", at)
        elif element in self._common:
            inner = self._common[element]
        else:
            raise self.error(at, f"unknown type {kind!r}")
        if not _NAME.match(element):
            raise self.error(at, f"not a struct's name: {element!r}")
        fields = self._fields(inner, at, struct_versions, (*outer_structs, element))
        return Struct(element, fields)

    def _default(self, entry: _Object, kind: str, at: str) -> tuple[Any, bool]:
        try:
            return parse_default(kind, entry.get("default"))
        except ValueError as error:
            raise self.error(at, str(error)) from None

    def _tag(self, entry: _Object, at: str) -> int | None:
        tag = entry.get("tag")
        if isinstance(tag, str) and tag.isascii() and tag.isdigit() and len(tag) <= 10:
            tag = int(tag)  # some of Kafka's own are written as texts
        if tag is not None and (type(tag) is not int or not 0 <= tag <= 0x7FFFFFFF):
            raise self.error(at, "tag must be a number that is not negative")
        return tag


def _struct_types(fields: list[_Object]) -> list[str]:
    """Name the types of fields, and of the fields declared inside them."""
    names: list[str] = []
    unvisited = list(fields)
    while unvisited:
        field = unvisited.pop()
        names.append(str(field.get("type", "")).removeprefix("[]"))
        inner = field.get("fields")
        if isinstance(inner, list):
            unvisited.extend(item for item in inner if isinstance(item, dict))
    return names


MAX_FILES = 10_000
MAX_FILE_BYTES = 4 << 20
MAX_VERSIONS = 1000
"""Most versions of one message; Kafka has 19."""


class UserMessage(NamedTuple):
    """A message and where it was read."""

    file: str
    """For error messages."""
    message: MessageSpec


class UserDefinitions(NamedTuple):
    """The messages of a folder."""

    requests: dict[int, UserMessage]
    """By API key."""
    responses: dict[int, UserMessage]
    data: dict[str, UserMessage]
    """By name."""


def read_definitions(folder: str | Path) -> UserDefinitions:
    """Read every ``*.json`` in a folder, but not in its subfolders.

    Raises DefinitionError, with file, field and reason, for a definition that breaks the rules of
    the language, a message that is defined twice, and a folder that cannot be read or has no
    definitions.
    """
    definitions = UserDefinitions({}, {}, {})
    from pathlib import Path  # imported late: for definitions of users alone

    files = _files(Path(folder))
    for path in files:
        for message in load_messages(_text(path), str(path)):
            _add(definitions, UserMessage(str(path), message))
    return definitions


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise DefinitionError(f"{folder}: not a folder of message definitions")
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix == ".json")
    except OSError as error:
        raise DefinitionError(f"{folder}: {error.strerror}") from None
    if not files:
        raise DefinitionError(f"{folder}: there is no *.json with message definitions")
    if len(files) > MAX_FILES:
        raise DefinitionError(f"{folder}: more than {MAX_FILES} files")
    return files


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise DefinitionError(f"{path}: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise DefinitionError(f"{path}: more than {MAX_FILE_BYTES >> 20} MiB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DefinitionError(f"{path}: not UTF-8 at byte {error.start}") from None


def _add(definitions: UserDefinitions, added: UserMessage) -> None:
    message = added.message
    if len(message.valid_versions.each()) > MAX_VERSIONS:
        raise DefinitionError(f"{added.file}: {message.name}: more than {MAX_VERSIONS} versions")
    if message.valid_versions.is_empty:
        return  # Kafka's way to say that an API was removed
    if message.kind == "data":
        other = definitions.data.setdefault(message.name, added)
    elif message.api_key is not None:
        messages = definitions.requests if message.kind == "request" else definitions.responses
        other = messages.setdefault(message.api_key, added)
        _check_name(added)
    else:
        return
    if other is not added:
        raise DefinitionError(
            f"{added.file}: {message.name}: the {message.kind} stands in {other.file} already"
        )


def _check_name(added: UserMessage) -> None:
    """Refuse a name without the ending of its kind; what precedes the ending names the API."""
    name, kind = added.message.name, added.message.kind
    ending = kind.capitalize()
    if not name.removesuffix(ending) or not name.endswith(ending):
        raise DefinitionError(f"{added.file}: {name}: the name of a {kind} ends in {ending}")
