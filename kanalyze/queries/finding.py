"""A finding: one thing that is wrong, whom it concerns, and what explains it."""

from __future__ import annotations

from typing import Any

from kanalyze.common.named_tuples import NamedTuple


class Cause(NamedTuple):
    """The finding that explains another."""

    name: str
    """Its kind."""
    number: int
    """Its place in the list of findings, from 1."""


class Finding(NamedTuple):
    """One thing that is wrong."""

    name: str
    """The kind: name of the query."""
    title: str
    severity: int
    what: str
    """The figures, as a sentence."""
    weight: float
    """Higher is worse, among findings of one kind."""
    sure: str
    why: str
    repair: str
    concerns: dict[str, Any]
    """Whom it concerns. Keys are client_id, client_ip, broker, api_name, topic, group_id and
    error_name; those that do not apply are missing."""
    first_time_ns: int | None
    last_time_ns: int | None
    first_packet: int | None
    command: str
    """The kanalyze command that shows the rows."""
    options: tuple[str, ...]
    """The options of that command."""
    see: tuple[str, ...] = ()
    """Sections of the report for people that show more of it."""
    cause: Cause | None = None
    """The finding that explains it; None if it has no known cause."""
    first_capture: str | None = None
    """The capture of the first packet; None if there is none, or it is unknown."""
    short_name: str = ""
    """Its name for ``--finding``: its kind, and its place if there are several of the kind; empty
    if its query does not say which rows it means."""
    rows: tuple[Any, ...] = ()
    """The ids of its requests, or the keys of its connections; empty if nobody asked for them."""

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as in the report."""
        cause = None if self.cause is None else self.cause._asdict()
        lists = {"options": list(self.options), "see": list(self.see)}
        fields = {**self._asdict(), **lists, "cause": cause}
        del fields["short_name"], fields["rows"]
        return fields
