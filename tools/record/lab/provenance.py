"""captures/PROVENANCE.md, written from the truth files so that both say the same."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Truth = dict[str, Any]
TEXTS = Path(__file__).with_name("provenance")
"""What stands before and behind the tables."""


def write(folder: Path) -> None:
    """Write the page from all truth files in a folder."""
    (folder / "PROVENANCE.md").write_text(page(folder))


def page(folder: Path) -> str:
    """The page's text."""
    truths = [json.loads(file.read_text()) for file in sorted(folder.glob("*.truth.json"))]
    table = "".join(_row(folder, truth) for truth in truths)
    head = "| capture | bytes | packets | link type | MTU | must contain |\n" + "|---" * 6 + "|\n"
    sections = "".join(_section(truth) for truth in truths)
    if folder.name == "tls":
        return _text("tls_head") + head + table + "\n" + sections.rstrip() + "\n"
    return _text("head") + head + table + "\n" + _text("keys") + sections + _text("again")


def _text(name: str) -> str:
    return (TEXTS / f"{name}.md").read_text()


def _row(folder: Path, truth: Truth) -> str:
    size = (folder / truth["capture"]).stat().st_size
    return (
        f"| `{truth['capture']}` | {size:,} | {truth['packets']:,} | {truth['link_type']} "
        f"| {truth['mtu']} | {truth['summary']} |\n"
    )


def _section(truth: Truth) -> str:
    made = truth["made_by"]
    lines = [
        f"## {truth['capture']}",
        "",
        truth["summary"],
        "",
        f"- Recorded on {made['recorded_on']} by `{made['command']}`.",
        f"- Captured by `{made['capture_command']}` ({made['capture_program'].rstrip('.')}).",
        f"- Broker: {_broker(truth)}. Clients: {', '.join(_libraries(truth))}.",
        *_counts(truth),
        "",
        "",
    ]
    return "\n".join(lines)


def _broker(truth: Truth) -> str:
    if "stand_in" in truth:
        return f"none, but {truth['stand_in']}"
    made = truth["made_by"]
    return f"Apache Kafka {made['kafka']}" if made["kafka"] else "librdkafka's mock cluster"


def _libraries(truth: Truth) -> list[str]:
    found: dict[str, None] = {}
    for client in truth["clients"]:
        inside = f" (librdkafka {client['librdkafka']})" if "librdkafka" in client else ""
        found[f"{client['library']} {client['version']}{inside}"] = None
    return list(found)


def _counts(truth: Truth) -> list[str]:
    lines = [_line("Requests", _sums(truth.get("broker_requests", {})))]
    on_clients = truth.get("client_listeners", {}).get("requests", {})
    lines.append(_line("Requests on the clients' listeners", _sums(on_clients)))
    for title, key in (
        ("Requests that the clients counted", "client_requests"),
        ("Produce requests by acks", "produce_requests_by_acks"),
        ("Records in Produce requests", "sent_records"),
        ("of which refused", "rejected_records"),
        ("Records in Fetch responses", "fetched_records"),
        ("Batches cut at the end of one", "fetched_cut_batches"),
        ("Records that the clients sent", "client_sent"),
        ("Records that the clients read", "client_consumed"),
        ("TLS connections", "tls_connections"),
    ):
        lines.append(_line(title, truth.get(key, {})))
    for name, table in truth.get("broker_listeners", {}).items():
        lines.append(_line(f"Listener {name}", table))
    for name, table in truth.get("broker_errors", {}).items():
        lines.append(_line(f"Errors in {name}", table))
    return [line for line in lines if line]


def _sums(table: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    return {name: sum(versions.values()) for name, versions in table.items()}


def _line(title: str, counts: Mapping[str, int]) -> str:
    if not counts:
        return ""
    return f"- {title}: " + ", ".join(f"{name} {number:,}" for name, number in counts.items()) + "."
