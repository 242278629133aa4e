"""The findings in our captures."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from kanalyze.api.tables import fill
from kanalyze.queries.database import Database
from kanalyze.queries.files import built_in
from kanalyze.queries.findings import findings_of, kind_of_finding
from kanalyze.runtime.pipeline import Analysis
from tests.support.captures import ROOT, path, truth

if TYPE_CHECKING:
    from kanalyze.queries.finding import Finding
    from kanalyze.queries.findings import FindingKind


def kinds_of(*names: str) -> list[FindingKind]:
    """Return the kinds with these names, or all."""
    queries = built_in("findings")
    return [kind_of_finding(queries[name]) for name in names or queries]


@cache
def findings_in(name: str) -> list[Finding]:
    """Return the findings in a capture, the worst first.

    Only the kinds that `docs/findings.md` names for it are looked for: all kinds take half a
    second, most of it planning. :func:`all_findings_in` shows that no other kind is found.
    """
    page = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    file = f"`{truth(name)['capture']}`"
    line = next(line for line in page.splitlines() if line.startswith(f"| {file} |"))
    return _found(name, [each for each in built_in("findings") if f"`{each}`" in line])


@cache
def all_findings_in(name: str) -> list[Finding]:
    """Return the findings of every kind in a capture, the worst first."""
    return _found(name, list(built_in("findings")))


def _found(name: str, names: list[str]) -> list[Finding]:
    kinds = [kind_of_finding(built_in("findings")[each]) for each in names]
    if not kinds:
        return []
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        fill(
            database, Analysis([str(path(name))]), {each for kind in kinds for each in kind.tables}
        )
        return findings_of(database, kinds)
