"""Folders of message definitions, as a user may write them."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def field(name: str, kind: str = "int32", versions: str = "0+", **keys: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "versions": versions, **keys}


def message(name: str, *fields: dict[str, Any], key: int | None = 1000, **keys: Any) -> str:
    """Return the text of a request, a response, or (without a key) of data."""
    kind = "request" if name.endswith("Request") else "response"
    made = {
        "type": "data" if key is None else kind,
        "name": name,
        "validVersions": "0-1",
        "flexibleVersions": "1+",
        "fields": list(fields),
        **({} if key is None else {"apiKey": key}),
        **keys,
    }
    return "// Of a vendor.\n" + json.dumps(made, indent=2)


def folder(path: Path, **texts: str) -> Path:
    """Write each text into a file of that name, ``.json`` added."""
    path.mkdir(exist_ok=True)
    for name, text in texts.items():
        (path / f"{name}.json").write_text(text, "utf-8")
    return path


def vendor_folder(path: Path) -> Path:
    """Write an API 1000 in versions 0 and 1, the latter flexible."""
    group = field("GroupId", "string", entityType="groupId")
    part = field("Parts", "[]Part", fields=[field("ErrorCode", "int16"), field("Note", "string")])
    return folder(
        path,
        VendorThingRequest=message("VendorThingRequest", group),
        VendorThingResponse=message("VendorThingResponse", field("ThrottleTimeMs"), part),
    )


def built_in(file: str) -> str:
    """Return the text of a packaged definition file."""
    return (files("kanalyze.kafka.schema") / "definitions" / file).read_text("utf-8")


def next_fetch(path: Path) -> Path:
    """Write Fetch as a later release might have it: with version 19, without the first four."""
    text = built_in("001_Fetch.json").replace('"0-18"', '"4-19"')
    added = '"fields": [\n    { "name": "Mood", "type": "string", "versions": "19+" },'
    return folder(path, Fetch=_first(text, added))


def _first(text: str, added: str) -> str:
    """Put ``added`` in place of the first list of fields of each message."""
    messages = text.split('"flexibleVersions": "12+",\n')
    rest = [part.replace('"fields": [', added, 1) for part in messages[1:]]
    return '"flexibleVersions": "12+",\n'.join([messages[0], *rest])
