"""captures/PROVENANCE.md, written from the truth files so that both say the same."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Truth = dict[str, Any]

HEAD = """\
# Where these captures come from

Real Kafka clients talked to a real Apache Kafka broker (or to librdkafka's mock cluster) on the
loopback of a network namespace made for it, while tcpdump or dumpcap listened. No packet was
edited; only the options that name the machine's hardware and operating system were taken out of
pcapng files. Of TLS neither keys nor key logs are kept here; captures of TLS with their key logs
are in `tls/`. This page is written by `tools/record/record.py` from the `*.truth.json` files.

Beside each `NAME.pcap` or `NAME.pcapng`:

- `NAME.truth.json`: what the broker and the clients **counted** while it was recorded. Nothing in
  it comes from looking at packets, but for the number of packets, which the capturing program told.
- `NAME.broker.jsonl.gz`: the broker's request log (KIP-673), one JSON object for each exchange in
  the order of completion, of the recorded listeners only. Added to what Kafka wrote: `completedMs`
  (Unix time in ms of the log line), `client` and `broker` (addresses, taken from `connection`).

"""

TLS_HEAD = """\
# Where these captures of TLS come from

Real Kafka clients talked TLS to a real Apache Kafka broker on the loopback of a network namespace
made for it, while tcpdump listened (but for those with `stand_in`, below). This page is written by
`tools/record/record.py` from the `*.truth.json` files.

The secrets here open nothing but these files. The authority, the certificates, the keys, the
password and the sessions were made for one recording of a minute and thrown away with it; no
private key is kept. Captures and key logs are under the licence of the project.

Beside each `NAME.pcap` or `NAME.pcapng`:

- `NAME.keys`: the secrets of its connections, as lines of an NSS key log: those that an agent in
  the broker's JVM wrote, and of those that the clients wrote the ones that are not among them. The
  agent's lines of TLS 1.2 are `RSA Session-ID:ID Master-Key:SECRET`, with the session id of the
  server's hello; the clients' are `CLIENT_RANDOM RANDOM SECRET`.
- `NAME.CLIENT.keys`: what that client wrote of its own connections; `proxy` ends TLS in front of
  the broker.
- `NAME.truth.json`: what the broker and the clients **counted** while it was recorded; the keys are
  those of `../PROVENANCE.md`.
- `NAME.broker.jsonl.gz`: the broker's request log (see `../PROVENANCE.md`). Behind a proxy,
  `client` is the address at the proxy, `connection` what the broker saw.
- `NAME.tshark.json`, `NAME.tshark.tsv`: what tshark reads with `NAME.keys`: connections (version,
  suite, session resumed, alerts, ...), requests by API key and version, and the requests one by one
  with the sizes that stand before request and response. The recorder stops where the broker's log
  has other requests than tshark, but for resumed sessions that tshark does not decrypt
  (`tls12-resumed`): Go writes no secret of those, and the agent writes the id of the first session.
  Over TLS 1.3 a client may ask before it learns that the broker refused its certificate: such a
  request is in no log, and has no response.

Files made from others by `tools/record/cut_tls.py` name theirs in `cut_from`: `*-late` begins in
the midst of a connection, `*-lost` lacks packets, `left_out` says which (numbers of packets in the
source); their keys and request log are the source's, and tshark reads less of them. `*-embedded`
has the secrets inside.

Those with `stand_in` in their truth file have no broker and no client of Kafka:
`tools/record/stand_in_tls.py` made OpenSSL speak on both ends what those do not, and each of their
connections has `requests_of_a_connection` requests (ApiVersions, version 0), all answered. The
client wrote `NAME.keys`. Of TLS 1.0 and 1.1 tshark reads the requests, and kanalyze does not.

"""

KEYS = """\
## What the keys of a truth file mean

| key | meaning | counted by |
|---|---|---|
| `fault` | the finding that the capture was made for | recorder |
| `packets`, `dropped_by_kernel` | packets in the file; packets lost while recording, always 0 | \
tcpdump, dumpcap |
| `link_type`, `mtu`, `segmentation_offload` | of the interface | capinfos, the recorder |
| `provoked` | what was done for the fault: limits, delays, times for which something stood still \
| recorder |
| `whole` | false: what broker and clients counted is not all in the capture, or more is: packets \
were lost or one direction left out on purpose, connections cut, requests never answered \
| recorder |
| `ports` | listener (or mock broker) and its TCP port; only these ports were recorded | recorder |
| `broker_requests` | requests on the recorded listeners: API, version, number. Whatever is in \
TLS is in it too (see `encrypted_listeners`). A request forwarded to the controller is an Envelope \
| request log; the recorder stops unless RequestsPerSec (JMX) over all listeners says the same |
| `broker_requests_by_listener` | the same without versions, by listener | request log |
| `broker_errors` | fields of responses on the recorded listeners whose name ends in `errorCode` \
and which are not 0: API, error, number of fields | request log |
| `broker_errors_by_jmx` | ErrorsPerSec without NONE, over **all** listeners, recorded or not: \
what was forwarded to the controller is in it once more | JMX |
| `broker_listeners` | connections accepted; requests received; responses sent; bytes of both with \
their 4-byte size prefix (of TLS: what was inside); where there is no TLS, the bytes are exactly \
the TCP payload, retransmissions left out. Of a listener that went on while the broker shut down, \
only its connections are known | JMX, socket-server-metrics |
| `requests_without_response` | received less sent: Produce with acks 0, and fetches whose client \
left before the answer (the broker logs those with a response, but the wire has none) | JMX |
| `produce_requests_by_acks` | Produce requests by `acks` (-1 is all) | request log |
| `requests_by_client_id` | requests by client id, Envelopes left out | request log |
| `connections_by_software` | connections by client software name and version as told in \
ApiVersions; `unknown unknown` where nothing was told | request log |
| `encrypted_listeners` | recorded listeners that speak TLS | recorder |
| `tls_connections` | connections that began with a TLS handshake: all of the TLS listener's, and \
those that the plaintext listener refused | JMX, the broker's own log |
| `produced_records` | records appended, by topic and partition | log end offsets, JMX |
| `rejected_records` | records that were sent in a Produce request and refused; where the batch \
was \
sent again and appended (`transactions`), told from its bytes | clients, request \
log and DumpLogSegments |
| `sent_records` | records in all Produce requests, by topic: appended and refused | both above |
| `produced_batches` | batches in the log at the end, by topic-partition; with those from before \
the recording where a scenario prepared some (`groups`) | DumpLogSegments |
| `produced_batches_by_codec` | batches and records in the log by topic and codec, without those \
that end a transaction | DumpLogSegments |
| `produced_bytes` | bytes of record batches in Produce requests, by topic, refused ones too | \
request log |
| `fetched_bytes` | bytes of records in Fetch responses, by topic, cut batches too | request log |
| `fetched_records`, `fetched_batches` | records and batches in Fetch responses that are there \
whole, by topic; a batch sent twice counts twice | request log and DumpLogSegments |
| `fetched_control_batches` | those of `fetched_batches` that end a transaction; their records are \
not in `fetched_records` | the same |
| `fetched_cut_batches` | batches that were cut at the end of a response | the same |
| `fetch_responses` | Fetch responses with and without records | request log |
| `topic_ids` | topics that existed at the end and their ids | files in the broker's log folders |
| `broker_warnings` | connections that the broker could not use | the broker's own log |
| `client_sent`, `client_acknowledged`, `client_consumed` | records by topic, summed over the \
clients; libraries call acks 0 acknowledged when it was sent; console tools tell no \
acknowledgements | clients |
| `authenticated_requests`, `handshake_requests` | of a SASL listener, in place of \
`broker_requests`: what came after (`broker_listeners` counts these only), and what came before, \
by \
API (without SaslAuthenticate) | request log; the broker's own log |
| `completed_requests`, `refused_requests` | where the broker gets requests that it cannot read, \
or loses part of its log, in place of `broker_requests`, `produced_records` and `sent_records`: \
the requests it completed, and how many more it received | request log; JMX |
| `principals` | principal of each client address that asked something after it was let in | \
request log |
| `client_committed`, `client_aborted`, `client_consumed_by_isolation` | records by the end of \
their transaction; of topics that someone read with `read_committed`, in place of \
`client_consumed`: records that each client was given, by isolation level | clients |
| `records` | every record that a client kept as it was given to it, one a line: place, timestamp \
in ms, key, value and headers' values in base64 or null; of no topic twice | clients |
| `client_listeners` | of a cluster, of the listeners that only clients use (`PLAINTEXT-1` and so \
on), over all nodes: `requests` and `errors` are what `broker_requests` and `broker_errors` are \
elsewhere, `consumed` what `client_consumed` is, and the others what they are elsewhere | request \
logs, DumpLogSegments, clients |
| `client_requests` | mock cluster only: requests of the APIs that librdkafka counts completely | \
librdkafka's statistics |
| `clients` | one entry a client process (or mock part): library, version, client id, and its \
counts by topic and partition (`*` where a console tool tells no partition), errors by the \
library's own names, librdkafka's last statistics | clients |

Of an old broker (`old-*`) `produced_records` are the high watermarks that it wrote down
as it ended.

The recording begins after the broker is up and preparations are over, with no client connected, and
ends when no client is connected any more: no exchange is cut at the edges. `controller` is
different: it begins before the broker starts and ends after it stopped. `cluster` begins before its
nodes start and ends while they talk on: of what nodes say to each other no exact number is known,
and some of it has no answer in the file. Its `produced_records` are the records in the log at the
end.

"""

AGAIN = """\
## To record again

    python3 tools/record/record.py --list
    python3 tools/record/record.py NAME ...

as root on Linux, with java 17 or later, mvn, tcpdump, dumpcap, capinfos, ip, ss, ethtool and
openssl. Kafka's jars come through `tools/record/pom.xml` and `old.pom.xml`, the Python clients
through `tools/record/requirements.txt` and `requirements-old.txt`, once, into `$KANALYZE_CACHE` or
`~/.cache/kanalyze`. `foreign` also needs node with npm (`package.json`) and go (`go.mod`).
A new recording has other times, ports and counts than the last.

A scenario is a module in `tools/record/scenarios/`, named in the list in its `__init__.py`: a
function that drives clients, and a `Scenario` that says how to record. A client is a worker in
`tools/record/clients/` that does jobs (`produce`, `consume`, `group`, ...) and tells what it
counted.
"""


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
        return TLS_HEAD + head + table + "\n" + sections.rstrip() + "\n"
    return HEAD + head + table + "\n" + KEYS + sections + AGAIN


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
