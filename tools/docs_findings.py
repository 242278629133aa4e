"""Pages of findings: one for each, and a list of them with what is found in our captures.

In: the kinds of findings, what is found in captures. Out: Markdown. One page each, because a report
links a person to one fault, and who searches the site finds the words of that fault alone.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

from tools.docs_pages import DOCS, ROOT
from tools.docs_reference import table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from kanalyze.queries.finding import Finding
    from kanalyze.queries.findings import FindingKind

__all__ = ["MADE_BY_HAND", "Capture", "captures", "findings_page", "kind_pages"]

HEAD = """\
# Findings

What `kanalyze report` looks for, the worst first. Written by `tools/sample_reports.py` from the
comments at the head of `kanalyze/queries/sql/findings/*.sql`, one file for each, and from what they
answer for the captures of this repository. A threshold is given by the name of the finding and its
own, as in `tiny_batches.least_per_s`.

"""
FAULTS_HEAD = """\

## Captures with a known fault

Each was recorded from a real broker (`captures/PROVENANCE.md` says how) for one fault, which is the
first finding.

"""
OTHERS_HEAD = """\

## The other captures

They were recorded for other reasons. What some of them hold on purpose (old versions, wrong
passwords, records that are too large, TLS spoken to a port without it) is found; nothing else is.

"""
CORPUS = ROOT / "docs" / "corpus.json"
"""What was tried on a cluster, as tools/record/corpus.py writes it."""
TRIED_HEAD = """\

## Tried on a cluster

Three KRaft brokers on a switch, and beside each trial Java, librdkafka and kafka-python clients
that produce and consume a little. `tools/record/corpus.py` records it and holds what is found first
against what was provoked: the finding, the client, broker, topic or group that it names, and from
when until when it says that it was. Each was recorded as often as the last column says. The
captures are made again by that command and not kept.

"""
MADE_BY_HAND = "No capture of the repository has this fault; tests make its packets."
FAULTY = "fault-"


class Capture:
    """A capture of the repository, and what happens in it."""

    def __init__(self, truth: Path) -> None:
        """Read what was recorded beside a capture."""
        recorded = json.loads(truth.read_text(encoding="utf-8"))
        self.name: str = recorded["capture"]
        self.path = str((truth.parent / self.name).relative_to(ROOT))
        """The path from the root of the repository."""
        self.summary: str = recorded["summary"]
        self.fault: str | None = recorded.get("fault")

    @property
    def is_faulty(self) -> bool:
        """Whether it was recorded for a fault."""
        return self.name.startswith(FAULTY)


def captures() -> list[Capture]:
    """Return the captures that have a record of the truth, by name."""
    return [Capture(file) for file in sorted((ROOT / "captures").glob("*.truth.json"))]


def findings_page(
    kinds: Sequence[FindingKind], found_in: Callable[[str], Sequence[Finding]]
) -> str:
    """Return the list of findings, and of captures with what is found in them."""
    faults, others = [], []
    for capture in captures():
        found = found_in(capture.path)
        names = [f"`{name}`" for name in dict.fromkeys(each.name for each in found)]
        if capture.is_faulty:
            cells = [capture.summary, names[0], found[0].what, ", ".join(names[1:])]
            faults.append((f"`{capture.name}`", *cells))
        else:
            others.append((f"`{capture.name}`", ", ".join(names) or "none"))
    head = ("capture", "what happens in it", "first finding", "what it says", "others")
    return "".join(
        (
            HEAD,
            table(("finding", "name", "severity"), map(_listed, in_order(kinds))),
            FAULTS_HEAD,
            table(head, faults),
            OTHERS_HEAD,
            table(("capture", "findings"), others),
            *_tried(),
        )
    )


def _tried() -> Iterator[str]:
    """Give the section on what was tried on a cluster, with precision and recall."""
    tried = json.loads(CORPUS.read_text(encoding="utf-8"))
    counts = tried["scores"]
    yield TRIED_HEAD
    right = counts["faults_right"]
    rows = (
        (
            "faults whose finding is among those that are reported",
            counts["faults_found"],
            counts["faults"],
        ),
        (
            "recall: faults whose finding is the first, and right in all of that",
            right,
            counts["faults"],
        ),
        ("precision: findings reported first that are right", right, counts["first_findings"]),
        ("healthy workloads without a finding", counts["healthy_right"], counts["healthy"]),
    )
    yield table(("what", "so many", "of"), [(what, str(n), str(of)) for what, n, of in rows])
    yield "\n"
    of_trials: dict[str, list[dict[str, Any]]] = {}
    for each in tried["recordings"]:
        of_trials.setdefault(each["name"], []).append(each)
    head = ("trial", "expected", "found first", "what it says", "right")
    yield table(head, map(_tried_often, of_trials.values()))


def _tried_often(recordings: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the line of a trial, with what is said of its first recording that is not right."""
    wrong = [each for each in recordings if each["wrong"] is not None]
    told = (wrong or recordings)[0]
    right = f"{len(recordings) - len(wrong)} of {len(recordings)}"
    return (
        told["summary"],
        " or ".join(f"`{name}`" for name in told["expected"]) or "nothing",
        f"`{told['first']}`" if told["first"] else "nothing",
        told["what"] or "",
        f"{right}: {told['wrong']}" if wrong else right,
    )


def in_order(kinds: Sequence[FindingKind]) -> list[FindingKind]:
    """Return kinds, the worst first."""
    return sorted(kinds, key=lambda kind: (-kind.severity, kind.query.name))


def _listed(kind: FindingKind) -> tuple[str, str, str]:
    name = kind.query.name
    return f"[{_title(kind)}](findings/{name}.md)", f"`{name}`", str(kind.severity)


def kind_pages(
    kinds: Sequence[FindingKind], found_in: Callable[[str], Sequence[Finding]]
) -> Iterator[tuple[Path, str]]:
    """Give the page of each kind; outputs of its commands are left empty."""
    for kind in in_order(kinds):
        example = _example(kind, found_in)
        yield DOCS / "findings" / f"{kind.query.name}.md", _kind_page(kind, example)


def _example(
    kind: FindingKind, found_in: Callable[[str], Sequence[Finding]]
) -> tuple[Capture, Finding] | None:
    """Return the capture that shows a kind, and the worst such finding in it."""
    name = kind.query.name
    recorded = {capture.fault: capture for capture in captures()}
    if name in EXAMPLES:
        capture = Capture(ROOT / "captures" / f"{EXAMPLES[name]}.truth.json")
    elif name in recorded:
        capture = recorded[name]
    else:
        return None
    return capture, next(each for each in found_in(capture.path) if each.name == name)


EXAMPLES = {
    "broker_away": "fault-killed",
    "capture_encrypted": "tls",
    "capture_lost_packets": "tls/tls12-lost",
    "capture_snapped": "snaplen",
    "idle_cut": "fault-idle-240",
    "offset_out_of_range": "errors",
    "rebalances": "fault-rebalances",
    "refused_by_kafka_4": "old-0-9-0-1",
    "tls_certificate_expires": "tls/tls12-mutual",
    "tls_failed": "tls/tls12-unknown-ca",
    "tls_weak": "tls/tls10-and-11",
    "unknown_topic": "errors",
}
"""Captures that show a kind which none was recorded for, and the best of several that were."""


def _kind_page(kind: FindingKind, example: tuple[Capture, Finding] | None) -> str:
    about = kind.query.description.partition("severity:")[0].strip()
    thresholds = [
        (f"`{kind.query.name}.{name}`", f"{value:g}", kind.meanings[name])
        for name, value in kind.thresholds.items()
    ]
    parts = [
        f"# {_title(kind)}\n\n`{kind.query.name}`, severity {kind.severity} of 100.\n",
        f"\n## What it means\n\n{kind.why}\n",
        f"\n{about}\n" if about else "",
        f"\nHow sure: {kind.sure}\n",
        "\n## How to check\n\n",
        _checked(*example) if example else _unchecked(kind),
        f"\n## How to repair\n\n{kind.repair}\n",
        "\n## Thresholds\n\n",
        table(("threshold", "default", "meaning"), thresholds),
        "\nChange one with `--threshold NAME=NUMBER`. The query is\n",
        f"`kanalyze/queries/sql/findings/{kind.query.name}.sql`. ",
        "[All findings](../findings.md).\n",
    ]
    return "".join(parts)


def _checked(capture: Capture, finding: Finding) -> str:
    options = " ".join(shlex.quote(option) for option in finding.options)
    command = f"kanalyze {finding.command} {capture.path} {options}".rstrip()
    seen = f"in packet {finding.first_packet}" if finding.first_packet else "in the capture"
    what = capture.summary.rstrip(".")
    return (
        f"The report names the {finding.command}. In `{capture.path}` ({what}) it says, "
        f"first seen {seen}:\n\n> {finding.what}\n\n"
        f"```sh\n{command}\n```\n<!-- output 8 lines -->\n```text\n```\n"
    )


def _unchecked(kind: FindingKind) -> str:
    return (
        f"`kanalyze report` gives the command that shows the rows, of `kanalyze {kind.command}`. "
        f"{MADE_BY_HAND}\n"
    )


def _title(kind: FindingKind) -> str:
    return kind.query.title.rstrip(".")
