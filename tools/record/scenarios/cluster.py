"""Three nodes of one cluster, of which one leaves and comes back: replicas, elections, quorum."""

import time

from lab.scenario import Lab, Scenario

TOPIC = "cluster"
PARTS = 3


def run(lab: Lab) -> None:
    """Write and read, with all nodes and with one less; then that one catches up."""
    topics = {TOPIC: {"partitions": PARTS, "replication": 3}}
    lab.worker("confluent", "create_topics", topics=topics, client_id="creator")
    _write(lab, "all-nodes")
    last = lab.cluster.nodes[-1]
    # A fetch of a client that has gone is logged when its wait is over.
    time.sleep(1.0)
    last.stop()
    _write(lab, "one-less")
    last.start()
    time.sleep(2.0)
    assign = [[TOPIC, part] for part in range(PARTS)]
    lab.consume("aiokafka", assign, 2 * PARTS * 15, linger=1.0)
    time.sleep(1.0)


def _write(lab: Lab, client_id: str) -> None:
    sends = [{"topic": TOPIC, "partition": part, "count": 15, "size": 200} for part in range(PARTS)]
    lab.produce("confluent", sends, client_id=client_id)


SCENARIO = Scenario(
    name="cluster",
    summary="Three combined nodes from their start: elections and metadata among the controllers, "
    "replicas that fetch from each other; one node stops, starts again and catches up.",
    run=run,
    nodes=3,
)
