"""Reads files with names of addresses.

In: paths. Out: :class:`~kanalyze.queries.names.AddressNames`. The form of a file is judged by its
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
from typing import TYPE_CHECKING, Any

from kanalyze.common import paths
from kanalyze.common.times import parse_time_ns
from kanalyze.errors import UsageError
from kanalyze.queries.names import ALWAYS_NS, AddressNames, NamedAddress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["read_names"]

_LARGEST_FILE_BYTES = 256 << 20
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
    lines = csv.DictReader(text.splitlines(), strict=True)
    lines.fieldnames = [name.strip().lower() for name in lines.fieldnames or ()]
    for name in lines.fieldnames:
        if name not in _COLUMNS:
            raise UsageError(f"{path}: unknown column {name!r}; there are {', '.join(_COLUMNS)}")
    try:
        for line in lines:
            values = {name: (line.get(name) or "").strip() or None for name in _COLUMNS}
            address = values["address"]
            if address is not None:
                known = (values["name"], values["app"], values["zone"])
                yield NamedAddress(address, *known, *_times(values["since"], values["until"]))
    except csv.Error as error:
        raise UsageError(f"{path}: line {lines.line_num}: {error}") from None


def _times(since: str | None, until: str | None) -> tuple[int, int]:
    first, last = ALWAYS_NS
    try:
        return (
            first if since is None else parse_time_ns(since),
            last if until is None else parse_time_ns(until),
        )
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
        _text(_part(node, "metadata"), "name"): _label(node, _ZONE_LABELS)
        for node in found
        if node["kind"] == "Node"
    }
    for item in found:
        yield from _READERS[item["kind"]](item, zones)


def _pods(pod: Mapping[str, Any], zones: Mapping[str | None, str | None]) -> Iterator[NamedAddress]:
    spec, status, about = _part(pod, "spec"), _part(pod, "status"), _part(pod, "metadata")
    if spec.get("hostNetwork"):
        return  # it has the address of its node, as other pods do
    owner = next(iter(_parts(about, "ownerReferences")), {})
    app = _label(pod, _APP_LABELS) or _text(owner, "name") or _text(about, "name")
    ended = [
        _text(_part(_part(each, "state"), "terminated"), "finishedAt")
        for each in _parts(status, "containerStatuses")
    ]
    until = _text(about, "deletionTimestamp")
    if until is None and status.get("phase") in _OVER:
        until = max((text for text in ended if text), default=_text(status, "startTime"))
    times = _times(_text(status, "startTime"), until)
    addresses = [_text(each, "ip") for each in _parts(status, "podIPs")]
    for address in addresses or [_text(status, "podIP")]:
        if address is not None:
            zone = zones.get(_text(spec, "nodeName"))
            yield NamedAddress(address, _full_name(about), app, zone, *times)


def _services(
    service: Mapping[str, Any], _: Mapping[str | None, str | None]
) -> Iterator[NamedAddress]:
    spec, about = _part(service, "spec"), _part(service, "metadata")
    listed = spec.get("clusterIPs") or [spec.get("clusterIP")]
    app = _label(service, _APP_LABELS) or _text(about, "name")
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


def _label(item: Mapping[str, Any], names: Iterable[str]) -> str | None:
    labels = _part(_part(item, "metadata"), "labels")
    return next((text for name in names if (text := _text(labels, name))), None)


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
