"""Some combined KRaft nodes of one cluster, in one namespace: what they say to each other and why.

Unlike one broker alone, nodes never stop talking, and their counters can't be read at one instant:
of what clients asked the request logs tell all, of the rest they tell no exact number.
"""

import base64
import uuid
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from lab import requestlog, segments
from lab.broker import PORTS, Broker
from lab.cache import Tools
from lab.namespace import Namespace
from lab.processes import run
from lab.requestlog import Exchange, Fetched

CLIENTS = "PLAINTEXT"
LISTENERS = (CLIENTS, "INTERNAL", "CONTROLLER")
# So that node 1 listens where a broker alone does.
STEP = 10


def port(listener: str, node: int) -> int:
    """The port of a node's listener; nodes count from 1."""
    return PORTS[listener] + STEP * (node - 1)


def ports(nodes: int) -> dict[str, int]:
    """``{"INTERNAL-2": 9106}`` of all listeners of all nodes."""
    numbers = range(1, nodes + 1)
    return {f"{name}-{node}": port(name, node) for name in LISTENERS for node in numbers}


class Node(Broker):
    """One node of a cluster; it can be started again after it was stopped."""

    def __init__(
        self, tools: Tools, namespace: Namespace, folder: Path, number: int, nodes: int
    ) -> None:
        super().__init__(tools, namespace, folder)
        self.number = number
        self.nodes = nodes

    def format(self, cluster_id: str) -> None:
        """Make the properties file and the formatted storage."""
        self.folder.mkdir(parents=True)
        properties = self.folder / "server.properties"
        lines = (f"{key}={value}" for key, value in self._properties().items())
        properties.write_text("\n".join(lines) + "\n")
        form = ["format", f"--cluster-id={cluster_id}", f"--config={properties}"]
        run(self.tools.java("kafka.tools.StorageTool", *form), timeout=60)

    def start(self) -> None:
        """Start it, perhaps once more, and wait until it says so."""
        # Else an earlier life's words would be taken for this one's.
        (self.folder / "server.log").unlink(missing_ok=True)
        super().start()

    def exchanges(self) -> list[Exchange]:
        """All that it logged in its lives."""
        return requestlog.exchanges(self.completed_since(0))

    def _watched(self) -> tuple[str, ...]:
        return ()

    def _properties(self) -> dict[str, str]:
        where = {name: f"{name}://127.0.0.1:{port(name, self.number)}" for name in LISTENERS}
        voters = range(1, self.nodes + 1)
        controllers = (f"{one}@127.0.0.1:{port('CONTROLLER', one)}" for one in voters)
        of_one = super()._properties()
        kept = {key: value for key, value in of_one.items() if "ssl." not in key}
        return {
            **{key: value for key, value in kept.items() if "sasl" not in key},
            "node.id": str(self.number),
            "controller.quorum.voters": ",".join(controllers),
            "listeners": ",".join(where.values()),
            "advertised.listeners": ",".join(where[name] for name in (CLIENTS, "INTERNAL")),
            "inter.broker.listener.name": "INTERNAL",
            "offsets.topic.replication.factor": str(self.nodes),
        }


class Cluster:
    """Started on entering and stopped on leaving."""

    def __init__(self, tools: Tools, namespace: Namespace, folder: Path, nodes: int) -> None:
        self.nodes: Sequence[Node] = [
            Node(tools, namespace, folder / f"node-{number}", number, nodes)
            for number in range(1, nodes + 1)
        ]

    def __enter__(self) -> Self:
        self.format()
        self.start()
        return self

    def format(self) -> None:
        """Make the folders of all nodes."""
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        for node in self.nodes:
            node.format(cluster_id)

    def start(self) -> None:
        """Start all of them at once."""
        try:
            # None is up before it knows of a leader, which more than half of them elect.
            with ThreadPoolExecutor(len(self.nodes)) as beside:
                list(beside.map(Node.start, self.nodes))
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End all of them at once: the last would have no one left to say goodbye to."""
        with ThreadPoolExecutor(len(self.nodes)) as beside:
            list(beside.map(lambda node: node.stop(grace=3.0), self.nodes))

    def truth(self, clients: Iterable[dict[str, Any]]) -> dict[str, Any]:
        """What went over the listeners that only clients use, and what is in the log at the end.

        Every node must have every record.
        """
        logged = [one for node in self.nodes for one in node.exchanges()]
        asked = [one for one in logged if one["listener"] == CLIENTS]
        batches = segments.dump(self.nodes[0])
        ids = self.nodes[0].topic_ids()
        names = {ident: name for name, ident in ids.items()}
        fetched = Fetched(names, batches)
        for exchange in asked:
            if requestlog.api(exchange) == "Fetch":
                fetched.add(exchange)
        return {
            "produced_records": _produced(batches),
            "client_listeners": {
                "requests": requestlog.by_version(asked),
                "errors": requestlog.errors(asked),
                "produce_requests_by_acks": requestlog.acks(asked),
                "requests_by_client_id": requestlog.client_ids(asked),
                "produced_bytes": requestlog.produced_bytes(asked, names),
                **fetched.result(),
                "consumed": _consumed(clients),
            },
            "topic_ids": {
                name: ident for name, ident in sorted(ids.items()) if not name.startswith("__")
            },
        }


def _produced(batches: dict[str, list[requestlog.Batch]]) -> dict[str, dict[str, int]]:
    table: dict[str, dict[str, int]] = {}
    for name, found in sorted(batches.items()):
        topic, _, part = name.rpartition("-")
        table.setdefault(topic, {})[part] = sum(batch["count"] for batch in found)
    return table


def _consumed(clients: Iterable[dict[str, Any]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for client in clients:
        for topic, parts in client.get("consumed", {}).items():
            sums[topic] = sums.get(topic, 0) + sum(parts.values())
    return sums
