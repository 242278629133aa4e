"""One fault each, seen in time and on the network: what is wrong is the summary of the scenario."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from lab.broker import CLIENT_LISTENERS, PORTS, address
from lab.cluster import port
from lab.processes import run
from lab.scenario import Lab, Scenario, sends_of
from lab.sniffer import Recording
from lab.way import BROKER_IP, CLIENTS_IP, INTERFACE, Line

TOPIC = "orders"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
FAR = f"{BROKER_IP}:{PORTS['PLAINTEXT']}"
# Of a block of addresses that are for documentation: nobody has it.
NOBODY = "192.0.2.9"


def _one_topic(lab: Lab) -> None:
    lab.create_topics({TOPIC: {"partitions": 1}})


def _topic_at(lab: Lab, bootstrap: str, partitions: int = 1) -> None:
    """The topic, made by a client of another address."""
    topics = {TOPIC: {"partitions": partitions}}
    lab.worker("confluent", "create_topics", topics=topics, bootstrap=bootstrap)


def _produce(lab: Lab, sends: list[dict[str, Any]], acks: str | int = "all", **job: Any) -> None:
    """Send records one at a time, unless the job says otherwise."""
    lab.produce("confluent", sends, acks=acks, **{"one_at_a_time": True, **job})


@contextmanager
def _writing(lab: Lab, patience_s: float, **job: Any) -> Iterator[Future[None]]:
    """Let a client produce meanwhile, and wait for its end."""
    with ThreadPoolExecutor(1) as beside:
        writing = beside.submit(_produce, lab, **job)
        yield writing
        writing.result(patience_s)


def _fault(name: str, finding: str, summary: str, **more: Any) -> Scenario:
    return Scenario(name=f"fault-{name}", fault=finding, summary=summary, whole=False, **more)


# --- requests without an answer ---


@contextmanager
def _standing_still(pid: int) -> Iterator[None]:
    """A program that does nothing meanwhile, and cannot say so."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def run_killed(lab: Lab) -> None:
    """Its clients wait for a broker that stands still, then it is killed; a new one comes."""
    bootstrap = f"127.0.0.1:{port('PLAINTEXT', 1)}"
    _topic_at(lab, bootstrap)
    node = lab.cluster.nodes[0]
    child = node.child
    if child is None:
        raise ValueError("the node is not there")
    with _writing(
        lab,
        90,
        client_id="checkout",
        bootstrap=bootstrap,
        config={"socket.timeout.ms": 2000, "request.timeout.ms": 2000},
        sends=sends_of(TOPIC, 12, 200, pause=1.0),
    ):
        time.sleep(3.0)
        with _standing_still(child.pid):
            time.sleep(5.0)
            os.killpg(child.pid, signal.SIGKILL)
        child.wait(10)
        time.sleep(1.5)
        node.start()


# --- connections cut while nothing goes over them ---


def run_idle(lab: Lab) -> None:
    """A producer that sends every few seconds, and is cut each time before it does."""
    _produce(
        lab,
        client_id="nightly-export",
        sends=sends_of(TOPIC, 5, 200, pause=5.0),
    )


def run_idle_long(lab: Lab) -> None:
    """The same once, with a limit that load balancers have."""
    _produce(
        lab,
        timeout=400,
        client_id="nightly-export",
        sends=sends_of(TOPIC, 1, 200, pause=250.0),
    )


def setup_far(lab: Lab) -> None:
    """A topic, made from afar."""
    _topic_at(lab, FAR)
    lab.clients.clear()


def run_forgotten(lab: Lab) -> None:
    """What is between them forgets the connection while nothing is sent, and says nothing of it."""
    if lab.way is None:
        raise ValueError("there is no way to cut")
    with _writing(
        lab,
        60,
        client_id="nightly-export",
        bootstrap=FAR,
        config={"socket.timeout.ms": 4000, "request.timeout.ms": 4000},
        sends=sends_of(TOPIC, 2, 200, pause=4.0),
    ):
        time.sleep(3.5)
        lab.way.forget()
    # The broker knows of nothing, and would keep the connection for ever.
    run(lab.broker.namespace.command(["ss", "-K", "dst", CLIENTS_IP]), timeout=10)


# --- members of a group that stand still ---


def run_heartbeats(lab: Lab) -> None:
    """A consumer that stands still for longer than a third of its session timeout."""
    lab.worker(
        "faults",
        "freeze",
        client_id="billing",
        group="billing-group",
        topics=[TOPIC],
        session_timeout_ms=6000,
        heartbeat_interval_ms=1000,
        freezes=[3.5, 3.5],
    )


# --- network or broker ---


def run_far(lab: Lab) -> None:
    """Small requests, one at a time, over a long line that loses packets."""
    _produce(
        lab,
        client_id="branch-office",
        bootstrap=FAR,
        sends=sends_of(TOPIC, 60, 300),
    )


def run_slow_broker(lab: Lab) -> None:
    """Three brokers, of which one stands still again and again, for less than a blink."""
    bootstrap = f"127.0.0.1:{port('PLAINTEXT', 1)}"
    _topic_at(lab, bootstrap, 3)
    slow = lab.cluster.nodes[1].child
    if slow is None:
        raise ValueError("the node is not there")
    with _writing(
        lab,
        1,
        acks=1,
        client_id="checkout",
        bootstrap=bootstrap,
        # In turn, so that all three are as warm as each other.
        sends=[sends_of(TOPIC, 1, 20, partition=part)[0] for _ in range(115) for part in range(3)],
        config={"linger.ms": 0},
    ) as writing:
        while not writing.done():
            with _standing_still(slow.pid):
                time.sleep(0.15)
            time.sleep(0.05)


def run_nagle(lab: Lab) -> None:
    """A request's size in one packet, and the rest when that one is acknowledged."""
    lab.worker(
        "faults",
        "produce_in_two_pieces",
        acks=1,
        client_id="gateway",
        sends=sends_of(TOPIC, 60, 200),
        one_at_a_time=True,
    )


# --- metadata that lead nowhere ---


def run_stale_leader(lab: Lab) -> None:
    """A partition gets another leader; a producer stays with the first."""
    bootstrap = f"127.0.0.1:{port('PLAINTEXT', 1)}"
    _topic_at(lab, bootstrap)
    with ThreadPoolExecutor(1) as beside:
        writing = beside.submit(
            lab.worker,
            "faults",
            "produce_to_old_leader",
            acks=1,
            client_id="shop",
            bootstrap=bootstrap,
            config={"retry_backoff_ms": 1000, "request_timeout_ms": 45_000},
            sends=sends_of(TOPIC, 8, 100, pause=1.0),
            one_at_a_time=False,
        )
        time.sleep(3.0)
        _move(lab)
        writing.result(100)


def _move(lab: Lab) -> None:
    """Let the other node have the partition."""
    told, _ = lab.tool("org.apache.kafka.tools.TopicCommand", "--describe", "--topic", TOPIC)
    (words,) = [line.split() for line in told.splitlines() if "Leader:" in line]
    other = 3 - int(words[words.index("Leader:") + 1])
    file = lab.folder / "move.json"
    file.write_text(
        '{"version": 1, "partitions": '
        f'[{{"topic": "{TOPIC}", "partition": 0, "replicas": [{other}]}}]}}'
    )
    lab.tool(REASSIGN, "--execute", "--reassignment-json-file", str(file))


def _listeners(**advertised: str) -> dict[str, str]:
    """Settings of a broker that tells other addresses of some listeners."""
    told = {name: address(name) for name in (*CLIENT_LISTENERS, "INTERNAL")} | advertised
    return {
        "inter.broker.listener.name": "INTERNAL",
        "advertised.listeners": ",".join(f"{name}://{where}" for name, where in told.items()),
    }


def setup_unreachable(lab: Lab) -> None:
    """A topic, by way of a listener whose address is right; packets for nobody get lost here."""
    _topic_at(lab, address("IPV6"))
    lab.clients.clear()
    run(
        lab.namespace.command(["ip", "route", "add", NOBODY, "dev", "lo", "src", "127.0.0.1"]),
        timeout=10,
    )


def run_unreachable(lab: Lab) -> None:
    """Clients that are told of an address where nobody is, or where nobody listens."""
    lab.worker(
        "faults",
        "knock",
        acks=1,
        client_id="mobile-app",
        sends=sends_of(TOPIC, 1, 50),
        config={"max_block_ms": 9000, "request_timeout_ms": 9000, "delivery_timeout_ms": 10_000},
    )


# --- consumers that fall behind ---


def run_lag(lab: Lab) -> None:
    """Records come faster than one consumer takes them."""
    with ThreadPoolExecutor(1) as beside:
        reading = beside.submit(
            lab.worker,
            "faults",
            "fall_behind",
            client_id="indexer",
            group="indexer-group",
            topics=[TOPIC],
            bytes_at_once=1200,
            work_s=0.8,
            seconds=14.0,
        )
        lab.produce(
            "confluent",
            sends_of(TOPIC, 2600, 12, pause=0.004),
            acks=1,
            client_id="crawler",
            config={"linger.ms": 150},
        )
        reading.result(60)


# --- captures that hold less than they might ---


def run_few(lab: Lab) -> None:
    """A few requests of two clients."""
    _produce(lab, sends_of(TOPIC, 10, 200))
    lab.consume("aiokafka", [[TOPIC, 0]], 10, linger=1.0)


FAR_SETTINGS = {
    **_listeners(PLAINTEXT=FAR),
    "listeners": ",".join(
        f"{name}://{f'0.0.0.0:{number}' if name == 'PLAINTEXT' else address(name)}"
        for name, number in PORTS.items()
    ),
}
OVER_WAY = Recording(interface=INTERFACE)

SCENARIOS = (
    _fault(
        "killed",
        "unanswered",
        "A broker stands still, with requests that it got, and is killed; its client waits "
        "2 s for each answer. A new one takes its place.",
        provoked={"client_timeout_s": 2, "stands_still_s": 5},
        run=run_killed,
        nodes=1,
        clients_only=True,
    ),
    _fault(
        "idle",
        "idle_cut",
        "A producer of one record in 5 s and a broker that cuts connections after 3 s of silence.",
        provoked={"idle_limit_s": 3, "records": 5},
        setup=_one_topic,
        run=run_idle,
        settings={"connections.max.idle.ms": "3000"},
    ),
    _fault(
        "idle-240",
        "idle_cut",
        "A producer of one record in 250 s and a broker that cuts connections after 240 s.",
        provoked={"idle_limit_s": 240},
        setup=_one_topic,
        run=run_idle_long,
        settings={"connections.max.idle.ms": "240000"},
    ),
    _fault(
        "forgotten",
        "sent_into_nothing",
        "A connection that was silent for 4 s is forgotten on the way: what is sent then "
        "is sent again and again, and nobody says anything.",
        provoked={"silence_s": 4},
        setup=setup_far,
        run=run_forgotten,
        settings=FAR_SETTINGS,
        recording=OVER_WAY,
        line=Line(delay_ms=1.0),
    ),
    _fault(
        "heartbeats",
        "late_heartbeats",
        "A member of a group that stands still for 3.5 s, with a session timeout of 6 s.",
        provoked={"session_timeout_s": 6, "freeze_s": 3.5, "freezes": 2},
        setup=_one_topic,
        run=run_heartbeats,
    ),
    _fault(
        "network",
        "slow_network",
        "A producer 40 ms away from its broker (there and back) on a line that loses one "
        "packet in 25.",
        provoked={"delay_ms": 20, "loss": 0.04},
        setup=setup_far,
        run=run_far,
        settings=FAR_SETTINGS,
        recording=OVER_WAY,
        line=Line(delay_ms=20.0, loss=0.04),
    ),
    _fault(
        "slow-broker",
        "slow_broker",
        "Three brokers, of which the second stands still for 150 of every 200 ms.",
        provoked={"slow_port": 9102, "stands_still_ms": 150},
        run=run_slow_broker,
        nodes=3,
        clients_only=True,
    ),
    _fault(
        "nagle",
        "delayed_acknowledgment",
        "A producer without TCP_NODELAY that writes the size of a request and the request.",
        provoked={"requests": 60},
        setup=_one_topic,
        run=run_nagle,
    ),
    _fault(
        "stale-leader",
        "stale_leader",
        "A partition moves to another broker, and a producer stays with the first.",
        run=run_stale_leader,
        nodes=2,
        clients_only=True,
    ),
    _fault(
        "nobody",
        "wrong_listener",
        "A broker whose advertised listener is an address that nobody has.",
        setup=setup_unreachable,
        run=run_unreachable,
        settings=_listeners(PLAINTEXT=f"{NOBODY}:{PORTS['PLAINTEXT']}"),
    ),
    _fault(
        "wrong-listener",
        "wrong_listener",
        "A broker whose advertised listener is an address where nobody listens.",
        setup=setup_unreachable,
        run=run_unreachable,
        settings=_listeners(PLAINTEXT=f"127.0.0.3:{PORTS['PLAINTEXT']}"),
    ),
    _fault(
        "lag",
        "growing_lag",
        "A consumer that takes fewer records at a time than come meanwhile.",
        setup=_one_topic,
        run=run_lag,
    ),
    _fault(
        "one-way",
        "capture_one_way",
        "A capture of what goes to the broker, and nothing of what it answers.",
        setup=_one_topic,
        run=run_few,
        filter="tcp dst port 9092",
    ),
)
