"""One recording from beginning to end."""

import contextlib
import dataclasses
import datetime
import gzip
import json
import platform
import shutil
import socket
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lab import cluster, segments
from lab.broker import PORTS, Broker, address
from lab.cache import Tools, old_clients
from lab.errors import RecorderError
from lab.namespace import Namespace
from lab.oldbroker import OldBroker, jars
from lab.pcapng import without_machine
from lab.processes import run
from lab.requestlog import Exchange, exchanges
from lab.scenario import Lab, Scenario
from lab.sniffer import Sniffer, Taken, version
from lab.tlsbroker import TlsBroker
from lab.tlsfiles import add_secrets
from lab.truth import REFUSED, Observed, broker_truth, client_truth, consumed_records, mock_truth
from lab.way import Way

# Lines of the broker's own log that tell of connections it could not use.
WARNINGS = {
    "InvalidReceiveException": REFUSED,
    "SSL handshake failed": "TLS handshakes failed",
}


def record(scenario: Scenario, tools: Tools, out: Path, *, keep: bool = False) -> str:
    """Make the capture and its truth; returns a line to show."""
    work = Path(tempfile.mkdtemp(prefix=f"kanalyze-{scenario.name}-"))
    try:
        with Namespace(scenario.name, mtu=scenario.mtu, offload=scenario.offload) as network:
            return _Session(scenario, tools, network, work).record(out)
    finally:
        if keep:
            print(f"{scenario.name}: kept {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)


class _Session:
    """The state of one recording."""

    def __init__(self, scenario: Scenario, tools: Tools, network: Namespace, work: Path) -> None:
        self.scenario = scenario
        self.tools = tools
        self.network = network
        self.work = work
        suffix = scenario.recording.file_format
        self.file = work / f"{scenario.name}.{suffix}"
        self.sniffer: Sniffer | None = None
        self.beyond: Namespace | None = None

    def record(self, out: Path) -> str:
        """Record with the kind of broker that the scenario wants."""
        with contextlib.ExitStack() as at_end:
            at_end.callback(self._abandon)
            if not self.scenario.broker:
                lab, taken, truth, log = self._without_broker()
            elif self.scenario.old is not None:
                lab, taken, truth, log = self._with_old_broker(at_end, *self.scenario.old)
            elif self.scenario.nodes:
                lab, taken, truth, log = self._with_cluster(at_end)
            elif self.scenario.whole_life:
                lab, taken, truth, log = self._whole_life(at_end)
            else:
                lab, taken, truth, log = self._with_broker(at_end)
        return self._write(out, lab, taken, truth, log)

    def _without_broker(self) -> tuple[Lab, Taken, dict[str, Any], list[Exchange]]:
        lab = Lab(self.tools, self.network, self.work, None)
        self.scenario.setup(lab)
        self._listen("tcp")
        self.scenario.run(lab)
        return lab, self._stop(), mock_truth(lab.clients), []

    def _with_broker(
        self, at_end: contextlib.ExitStack
    ) -> tuple[Lab, Taken, dict[str, Any], list[Exchange]]:
        way = self._way(at_end)
        broker = at_end.enter_context(self._broker())
        lab = Lab(self.tools, self.network, self.work, broker)
        lab.way = way
        self.scenario.setup(lab)
        broker.wait_idle()
        before, mark = broker.counts(), broker.completed()
        words = len(broker.server_log())
        self._listen(self._filter())
        self.scenario.run(lab)
        broker.wait_idle()
        # Fetches whose client has gone are completed, and logged, when their wait is over.
        taken = self._stop()
        after, lines = broker.counts(), broker.completed_since(mark)
        seen = Observed(
            before=before,
            after=after,
            exchanges=[_before(lab.behind, one) for one in exchanges(lines)],
            topic_ids=_named(broker.topic_ids()),
            batches=segments.dump(broker),
            listeners=self.scenario.listeners,
            warnings=_warnings(broker.server_log()[words:]),
            rejected=lab.rejected,
            handshakes=_handshakes(broker.server_log()[words:]),
            uncounted=self.scenario.uncounted,
        )
        return lab, taken, broker_truth(seen), seen.recorded

    def _with_old_broker(
        self, at_end: contextlib.ExitStack, version_: str, scala: str
    ) -> tuple[Lab, Taken, dict[str, Any], list[Exchange]]:
        self.tools = dataclasses.replace(self.tools, python=old_clients(), kafka_version=version_)
        broker = OldBroker(version_, scala, self.network, self.work / "broker")
        lab = Lab(self.tools, self.network, self.work, None)
        lab.old = at_end.enter_context(broker)
        self.scenario.setup(lab)
        self._listen(self._filter())
        self.scenario.run(lab)
        taken = self._stop()
        return lab, taken, old_truth(broker), []

    def _with_cluster(
        self, at_end: contextlib.ExitStack
    ) -> tuple[Lab, Taken, dict[str, Any], list[Exchange]]:
        nodes = cluster.Cluster(
            self.tools, self.network, self.work / "cluster", self.scenario.nodes
        )
        if not self.scenario.clients_only:
            self._listen(self._filter())
        lab = Lab(self.tools, self.network, self.work, None)
        lab.nodes = at_end.enter_context(nodes)
        if self.scenario.clients_only:
            self._listen(self._filter())
        self.scenario.run(lab)
        taken = self._stop()
        return lab, taken, nodes.truth(lab.clients), []

    def _whole_life(
        self, at_end: contextlib.ExitStack
    ) -> tuple[Lab, Taken, dict[str, Any], list[Exchange]]:
        self._listen(self._filter())
        broker = at_end.enter_context(self._broker())
        lab = Lab(self.tools, self.network, self.work, broker)
        self.scenario.run(lab)
        broker.wait_idle()
        after, mark = broker.counts(), broker.completed()
        found = segments.dump(broker)
        broker.stop()
        taken = self._stop()
        seen = Observed(
            before={},
            after=after,
            exchanges=exchanges(broker.completed_since(0, mark)),
            later=exchanges(broker.completed_since(mark)),
            topic_ids=_named(broker.topic_ids()),
            batches=found,
            listeners=self.scenario.listeners,
        )
        return lab, taken, broker_truth(seen), seen.recorded

    def _broker(self) -> Broker:
        where = self.network if self.beyond is None else self.beyond
        folder, settings = self.work / "broker", self.scenario.settings
        if self.scenario.tls:
            return TlsBroker(self.tools, where, folder, settings, self.scenario.security)
        version_ = self.scenario.broker_version
        return Broker(self.tools, where, folder, settings, jars(*version_) if version_ else None)

    def _way(self, at_end: contextlib.ExitStack) -> Way | None:
        """Make the way to the broker, where the scenario wants one, and what is beyond it."""
        line = self.scenario.line
        if line is None:
            return None
        name = f"{self.scenario.name}-beyond"
        beyond = Namespace(name, mtu=self.scenario.mtu, offload=self.scenario.offload)
        self.beyond = at_end.enter_context(beyond)
        return at_end.enter_context(Way(line, self.network, self.beyond))

    def _filter(self) -> str:
        if self.scenario.filter is not None:
            return self.scenario.filter
        return " or ".join(f"tcp port {port}" for port in self._ports().values())

    def _ports(self) -> dict[str, int]:
        """The recorded ports by listener; the mock cluster chooses its own."""
        if self.scenario.nodes:
            found = cluster.ports(self.scenario.nodes)
            only = cluster.CLIENTS if self.scenario.clients_only else ""
            return {name: port for name, port in found.items() if name.startswith(only)}
        return {name: PORTS[name] for name in self.scenario.listeners}

    def _listen(self, capture_filter: str) -> None:
        self.sniffer = Sniffer(self.scenario.recording, self.network, self.file, capture_filter)

    def _stop(self) -> Taken:
        if self.sniffer is None:
            raise ValueError("nothing is being recorded")
        taken = self.sniffer.stop()
        if taken.dropped:
            raise RecorderError(f"the kernel dropped {taken.dropped} packets: record again")
        return taken

    def _abandon(self) -> None:
        if self.sniffer is not None:
            self.sniffer.abandon()

    def _write(
        self, out: Path, lab: Lab, taken: Taken, truth: dict[str, Any], log: list[Exchange]
    ) -> str:
        if self.scenario.recording.file_format == "pcapng":
            self.file.write_bytes(without_machine(self.file.read_bytes()))
        self._clean()
        scenario, name = self.scenario, self.scenario.name
        shutil.copyfile(self.file, out / self.file.name)
        records = consumed_records(lab.clients)
        counted = client_truth(lab.clients)
        if scenario.nodes:
            # Of all that was fetched it is only a part: replicas fetch the same (client_listeners).
            del counted["client_consumed"]
        whole = self._about(taken) | truth | counted | {"clients": lab.clients}
        text = json.dumps(whole, indent=1, sort_keys=False) + "\n"
        (out / f"{name}.truth.json").write_text(_with_records(text, records))
        if log:
            _write_lines(out / f"{name}.broker.jsonl.gz", log)
        if scenario.tls:
            add_secrets(out, name, self.work, log)
        size = self.file.stat().st_size
        return f"{taken.packets} packets, {size} bytes, {len(log)} exchanges logged"

    def _about(self, taken: Taken) -> dict[str, Any]:
        scenario, how = self.scenario, self.scenario.recording
        if self.sniffer is None:
            raise ValueError("nothing was recorded")
        command = [Path(word).name if word.startswith("/") else word for word in self.sniffer.words]
        return {
            "format": 1,
            "capture": self.file.name,
            "summary": scenario.summary,
            **({"fault": scenario.fault} if scenario.fault else {}),
            **({"provoked": dict(scenario.provoked)} if scenario.provoked else {}),
            **({} if scenario.whole else {"whole": False}),
            "made_by": {
                "command": f"python3 tools/record/record.py {scenario.name}",
                "recorded_on": datetime.datetime.now(datetime.UTC).date().isoformat(),
                "capture_command": " ".join(command),
                "capture_program": version(how.program),
                "kafka": self._version(),
                "kernel": platform.release().split("-")[0],
            },
            "packets": taken.packets,
            "dropped_by_kernel": taken.dropped,
            "link_type": link_type(self.file),
            "mtu": scenario.mtu,
            "segmentation_offload": scenario.offload,
            "ports": self._ports() if scenario.broker else {},
        }

    def _version(self) -> str | None:
        if not self.scenario.broker:
            return None
        other = self.scenario.broker_version
        return other[0] if other else self.tools.kafka_version

    def _clean(self) -> None:
        """A capture must not tell on which machine it was made."""
        content = self.file.read_bytes()
        for word in {socket.gethostname(), str(Path.home())}:
            if len(word) > 4 and word.encode() in content:
                raise RecorderError(f"the capture {self.file.name} holds this machine's {word}")


def _before(behind: Mapping[str, str], one: Exchange) -> Exchange:
    """An exchange with the addresses of its client and of the proxy, if there is one between."""
    seen = one["client"]
    if seen not in behind:
        return one
    return one | {"client": behind[seen], "broker": address(one["listener"])}


def link_type(file: Path) -> str:
    """The link type's name, from capinfos."""
    told = run(["capinfos", "-E", "-T", "-r", str(file)], timeout=60)
    return told.stdout.strip().split("\t")[-1]


def _with_records(text: str, records: list[dict[str, Any]]) -> str:
    """The truth file's text with the records at its end, one a line."""
    if not records:
        return text
    lines = ",\n".join("  " + json.dumps(one, separators=(",", ":")) for one in records)
    return text.removesuffix("\n}\n") + ',\n "records": [\n' + lines + "\n ]\n}\n"


def old_truth(broker: OldBroker) -> dict[str, Any]:
    """What an old broker wrote down as it ended."""
    broker.stop()
    produced = broker.end_offsets()
    return {
        "produced_records": produced,
        "sent_records": {topic: sum(parts.values()) for topic, parts in produced.items()},
    }


def _named(ids: dict[str, str]) -> dict[str, str]:
    return {name: ident for name, ident in ids.items() if name != "__cluster_metadata"}


def _handshakes(text: str) -> dict[str, int]:
    """Requests by API that the broker took before it knew who asks, from its own words."""
    sign = "Handling Kafka request "
    names = (line.partition(sign)[2].split()[0] for line in text.splitlines() if sign in line)
    counts = Counter("".join(part.capitalize() for part in name.split("_")) for name in names)
    return dict(sorted(counts.items()))


def _warnings(text: str) -> dict[str, int]:
    lines = text.splitlines()
    counts = {meaning: sum(sign in line for line in lines) for sign, meaning in WARNINGS.items()}
    return {meaning: number for meaning, number in counts.items() if number}


def _write_lines(file: Path, found: Iterable[Exchange]) -> None:
    """JSON lines, compressed so that the same lines give the same bytes."""
    lines = "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in found)
    file.write_bytes(gzip.compress(lines.encode(), mtime=0))
