"""Reads files with names of addresses.

In: paths. Out: :class:`~kanalyze.tables.names.AddressNames`. The form of a file is judged by its
content:

- hosts: lines ``ADDRESS NAME ...``;
- CSV with a head: ``address`` (or a network), and some of ``name``, ``app``, ``zone``, ``since``,
  ``until``;
- JSON: what ``kubectl get pods,services,nodes -A -o json`` writes;
- pcapng: the names that it has for addresses.
"""

from __future__ import annotations

import csv
import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kanalyze.common import paths
from kanalyze.common.garbage_collection import collecting_rarely
from kanalyze.common.times import parse_time_ns
from kanalyze.errors import UsageError
from kanalyze.tables.names import ALWAYS_NS, AddressNames, NamedAddress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_LARGEST_FILE_BYTES = 256 << 20
_NS_PER_S = 1_000_000_000
_WHOLE_SECONDS = len("2026-01-31T09:30:00Z")
_PCAPNG = bytes.fromhex("0a0d0d0a")
_COLUMNS = ("address", "name", "app", "zone", "since", "until")
_APP_LABELS = ("app.kubernetes.io/name", "app.kubernetes.io/instance", "app", "k8s-app")
_ZONE_LABELS = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_OVER = ("Succeeded", "Failed")
"""Phases of pods that have ended: their address may be another's."""


def read_names(files: Iterable[str]) -> AddressNames:
    """Return the names in files.

    Raises:
        UsageError: a file cannot be read, or is invalid; the text names it.
    """
    from kanalyze.common.argument_values import opening  # imported late: few commands have files

    names = AddressNames()
    for path in files:
        with opening(path), paths.opened(path) as file:
            data = file.read(_LARGEST_FILE_BYTES + 1)
        if data.startswith(_PCAPNG):
            known = _in_capture(path)
        elif len(data) > _LARGEST_FILE_BYTES:
            raise UsageError(f"{path}: a file of names may have at most 256 MiB")
        else:
            known = _in_text(path, data)
        # A hundred thousand of them outlive every collection: looking at them takes as long again.
        with collecting_rarely():
            try:
                for each in known:
                    names.add(each)
            except ValueError as error:
                raise UsageError(f"{path}: {error}") from None
    return names


def _in_capture(path: str) -> Iterator[NamedAddress]:
    """Yield the names that a pcapng file has; they may be anywhere in it."""
    from kanalyze.capture.reader import open_capture  # imported late: for captures only

    with open_capture(path) as reader:
        for _ in reader.batches():
            pass
        for address, names in reader.description.names.items():
            yield NamedAddress(address, names[0])


def _in_text(path: str, data: bytes) -> Iterator[NamedAddress]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not UTF-8 text") from None
    if text.lstrip().startswith("{"):
        return _in_kubectl(path, text)
    head = text.partition("\n")[0].strip().lower().split(",")
    return _in_csv(path, text) if "address" in head else _in_hosts(path, text)


def _in_hosts(path: str, text: str) -> Iterator[NamedAddress]:
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if len(words) == 1:
            raise UsageError(f"{path}: line {number}: not an address and a name: {words[0]!r}")
        if words:
            yield NamedAddress(words[0].partition("%")[0], words[1])


def _in_csv(path: str, text: str) -> Iterator[NamedAddress]:
    lines = csv.reader(text.splitlines(), strict=True)
    head = [name.strip().lower() for name in next(lines)]
    for name in head:
        if name not in _COLUMNS:
            raise UsageError(f"{path}: unknown column {name!r}; there are {', '.join(_COLUMNS)}")
    places = [head.index(name) if name in head else -1 for name in _COLUMNS]
    width = len(head)
    try:
        for line in lines:
            cells = line if len(line) == width else [*line, *[""] * width][:width]
            cells.append("")  # at -1: that of columns that the file does not have
            address, name, app, zone, since, until = [cells[place].strip() for place in places]
            if address:
                known = (name or None, app or None, zone or None)
                yield NamedAddress(address, *known, *_times(since or None, until or None))
    except csv.Error as error:
        raise UsageError(f"{path}: line {lines.line_num}: {error}") from None


def _times(since: str | None, until: str | None) -> tuple[int, int]:
    first, last = ALWAYS_NS
    return (
        first if since is None else _time_ns(since),
        last if until is None else _time_ns(until),
    )


def _time_ns(text: str) -> int:
    """Return a Unix time; its usual form is read in a third of the time that any form takes."""
    if len(text) == _WHOLE_SECONDS and text[13] == ":" and text[-1] == "Z":
        try:
            return int(datetime.fromisoformat(text).timestamp()) * _NS_PER_S
        except ValueError:
            pass  # the message is that of other forms
    try:
        return parse_time_ns(text)
    except UsageError as error:
        raise ValueError(str(error)) from None


# -- Kubernetes -----------------------------------------------------------------------------------


def _in_kubectl(path: str, text: str) -> Iterator[NamedAddress]:
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError(f"{path}: not JSON") from None
    found = [item for item in _parts(listed, "items") or [listed] if _kind(item) in _READERS]
    if not found:
        raise UsageError(f"{path}: has no pods, services or nodes of kubectl get -o json")
    zones = {
        _text(_part(node, "metadata"), "name"): _label(_part(node, "metadata"), _ZONE_LABELS)
        for node in found
        if node["kind"] == "Node"
    }
    for item in found:
        yield from _READERS[item["kind"]](item, zones)


def _pods(pod: Mapping[str, Any], zones: Mapping[str | None, str | None]) -> Iterator[NamedAddress]:
    spec, status, about = _part(pod, "spec"), _part(pod, "status"), _part(pod, "metadata")
    if spec.get("hostNetwork"):
        return  # it has the address of its node, as other pods do
    app = _label(about, _APP_LABELS)
    if app is None:
        owner = next(iter(_parts(about, "ownerReferences")), {})
        app = _text(owner, "name") or _text(about, "name")
    until = _text(about, "deletionTimestamp")
    if until is None and status.get("phase") in _OVER:
        ended = [
            _text(_part(_part(each, "state"), "terminated"), "finishedAt")
            for each in _parts(status, "containerStatuses")
        ]
        until = max((text for text in ended if text), default=_text(status, "startTime"))
    times = _times(_text(status, "startTime"), until)
    name, zone = _full_name(about), zones.get(_text(spec, "nodeName"))
    addresses = [_text(each, "ip") for each in _parts(status, "podIPs")]
    for address in addresses or [_text(status, "podIP")]:
        if address is not None:
            yield NamedAddress(address, name, app, zone, *times)


def _services(
    service: Mapping[str, Any], _: Mapping[str | None, str | None]
) -> Iterator[NamedAddress]:
    spec, about = _part(service, "spec"), _part(service, "metadata")
    listed = spec.get("clusterIPs") or [spec.get("clusterIP")]
    app = _label(about, _APP_LABELS) or _text(about, "name")
    for address in listed if isinstance(listed, list) else ():
        if isinstance(address, str) and address not in ("", "None"):
            yield NamedAddress(address, _full_name(about), app)


def _nodes(
    node: Mapping[str, Any], zones: Mapping[str | None, str | None]
) -> Iterator[NamedAddress]:
    name = _text(_part(node, "metadata"), "name")
    for each in _parts(_part(node, "status"), "addresses"):
        if each.get("type") in ("InternalIP", "ExternalIP") and _text(each, "address"):
            yield NamedAddress(each["address"], name, None, zones.get(name))


_READERS = {"Pod": _pods, "Service": _services, "Node": _nodes}


def _kind(item: Mapping[str, Any]) -> str:
    return _text(item, "kind") or ""


def _full_name(about: Mapping[str, Any]) -> str | None:
    """Return ``NAMESPACE/NAME``."""
    name, space = _text(about, "name"), _text(about, "namespace")
    return f"{space}/{name}" if name and space else name


def _label(about: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """Return the first of these labels that the metadata of an item has."""
    labels = _part(about, "labels")
    return next(filter(None, (_text(labels, name) for name in names)), None)


def _part(item: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an object inside of another; an empty one if it is missing, or something else."""
    value = item.get(name)
    return value if isinstance(value, dict) else {}


def _parts(item: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = item.get(name)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(item: Mapping[str, Any], name: str) -> str | None:
    value = item.get(name)
    return value if isinstance(value, str) and value else None
