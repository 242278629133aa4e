"""``kanalyze protocol``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from kanalyze.cli.console import plain_width
from kanalyze.errors import UsageError
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.schema.schema_ast import VersionRange
from kanalyze.render.protocol import (
    api_facts,
    api_lines,
    apis_lines,
    error_facts,
    errors_lines,
    summary_facts,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from kanalyze.kafka.schema.catalog import Api

_ERRORS = "errors"
_LONGEST_VERSION = 6


def protocol(arguments: argparse.Namespace) -> None:
    """Show the APIs, one API, or the error codes; raises KanalyzeError and OSError."""
    catalog = Catalog(arguments.definitions)
    name = arguments.api
    if name is None:
        width = plain_width() if sys.stdout.isatty() else None
        _show(
            arguments.json, apis_lines(catalog, width), [summary_facts(api) for api in catalog.apis]
        )
    elif name.lower() == _ERRORS:
        _show(arguments.json, errors_lines(), error_facts())
    else:
        api = _in_version(_find(name, catalog), arguments.version)
        _show(arguments.json, api_lines(catalog, api), api_facts(catalog, api))


def _show(as_json: bool, lines: Iterable[str], facts: Any) -> None:
    text = json.dumps(facts, indent=2) if as_json else "\n".join(lines)
    sys.stdout.write(text + "\n")


def _in_version(api: Api, text: str | None) -> Api:
    """Return an API in one of its versions alone; in all of them for None."""
    if text is None:
        return api
    number = text.removeprefix("v")
    if not (number.isascii() and number.isdigit() and len(number) < _LONGEST_VERSION):
        raise UsageError(f"not a version: {text!r} (such as 12)")
    if not api.versions.contains(int(number)):
        raise UsageError(f"{api.name} has no version {number}; versions are {api.versions}")
    return api._replace(versions=VersionRange(int(number), int(number)))


def _find(text: str, catalog: Catalog) -> Api:
    """Return an API by key or by name, in any case and with or without ``_``."""
    if text.isascii() and text.isdigit():
        api = catalog.api(int(text))
        if api is None:
            last = catalog.apis[-1].key
            raise UsageError(f"no API has the key {text}; keys are 0 to {last}")
        return api
    names = {api.name.lower(): api for api in catalog.apis}
    normalized = text.lower().replace("_", "")
    if normalized in names:
        return names[normalized]
    import difflib  # imported late: only for unknown names

    similar = difflib.get_close_matches(normalized, [*names, _ERRORS], n=3)
    proposals = [names[name].name if name in names else name for name in similar]
    hint = f"; did you mean {', '.join(proposals)}?" if proposals else ""
    raise UsageError(f"unknown API: {text!r}{hint}")
