#!/usr/bin/env python3
"""Try findings on a real cluster: record healthy workloads and faults, and say what is found.

    corpus.py [TRIAL ...] --out FOLDER     record these, or all of them, and judge them
    corpus.py --judge --out FOLDER...      judge what is in these folders already
    corpus.py --keep --out FOLDER          put what is small and new into captures/cluster
    corpus.py --list                       say which there are

Three KRaft nodes and two machines of clients, a network namespace each, on a bridge; the captures
are taken there and kept in the folder, beside NAME.fault.json (when the fault was there). What is
found first is held against what was provoked, and the answers are written to docs/corpus.json, of
which tools/sample_reports.py makes a table. Needs what record.py needs, and curl.
"""

import argparse
import contextlib
import json
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lab.bridge import BRIDGE, NETWORK, Machine, Switch
from lab.cache import HERE, Tools, fetch, jars
from lab.errors import RecorderError
from lab.judge import findings_in, scores, verdict
from lab.processes import need, need_root, run
from lab.scenario import CONSUMER, PERFORMANCE
from lab.sniffer import Recording, Sniffer
from lab.trial import Stage, Trial
from lab.trio import NODES, Trio
from trials import ALL

RESULTS = HERE.parents[1] / "docs" / "corpus.json"
KEPT = HERE.parents[1] / "captures" / "cluster"
JOBS, APPS = 31, 21
"""Hosts of the machines of clients: of those that a trial is about, and of the others."""
QUIET_S = 3.0
"""How long nothing is done at the beginning and the end of a capture."""


def main(words: Sequence[str]) -> int:
    """Record and judge what was asked for; 2 when something stands in the way."""
    given = _arguments(words)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if given.list:
        for trial in ALL:
            print(f"{trial.name:20} {trial.summary}")
        return 0
    try:
        wanted = _chosen(given.trial)
        out: Path = given.out[0]
        out.mkdir(parents=True, exist_ok=True)
        if given.keep:
            _keep([trial for trial in wanted if trial.is_kept], out)
            return 0
        if not given.judge:
            _record(wanted, out, given.seed)
        _judge(wanted, given.out, given.results)
    except KeyboardInterrupt:
        print("corpus.py: stopped", file=sys.stderr)
        return 130
    except RecorderError as error:
        print(f"corpus.py: {error}", file=sys.stderr)
        return 2
    return 0


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="corpus.py", description=__doc__.splitlines()[0])
    parser.add_argument("trial", nargs="*", help="names of trials (default: all)")
    parser.add_argument("--list", action="store_true", help="list the trials and stop")
    parser.add_argument("--judge", action="store_true", help="record nothing")
    parser.add_argument("--keep", action="store_true", help="copy parts into captures/cluster")
    folders = "folder for captures; several have been recorded one after the other"
    parser.add_argument("--out", type=Path, nargs="+", default=[Path("corpus")], help=folders)
    drawn = "draw rates, sizes and times of the trials with this seed"
    parser.add_argument("--seed", type=int, help=drawn)
    parser.add_argument("--results", type=Path, default=RESULTS, help="file for the answers")
    return parser.parse_args(words)


def _chosen(names: Sequence[str]) -> list[Trial]:
    known = {trial.name: trial for trial in ALL}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise RecorderError(f"no such trial: {', '.join(unknown)} (see --list)")
    return [known[name] for name in names] or list(ALL)


def _record(wanted: Sequence[Trial], out: Path, seed: int | None) -> None:
    need_root()
    need("java", "mvn", "tcpdump", "ip", "tc", "ethtool", "openssl", "curl")
    tools = fetch()
    more = jars(HERE / "corpus.pom.xml")
    for has_racks in (False, True):
        # A trial of a start goes first: the others need what it leaves running.
        trials = [trial for trial in wanted if trial.has_racks == has_racks]
        trials.sort(key=lambda trial: not trial.is_cold)
        with tempfile.TemporaryDirectory(prefix="kanalyze-corpus-") as work:
            if trials:
                _record_on_one(trials, tools, more, Path(work), out, seed)


def _record_on_one(
    trials: Sequence[Trial],
    tools: Tools,
    more: Path,
    work: Path,
    out: Path,
    seed: int | None,
) -> None:
    """Record trials on one cluster."""
    has_racks = trials[0].has_racks
    with _stage(tools, more, work, out / "logs", has_racks=has_racks) as (stage, apps):
        is_up = False
        for trial in trials:
            if not trial.is_cold and not is_up:
                stage.start()
                if not has_racks:
                    _background(stage, apps)
                is_up = True
            print(f"{trial.name}: recording", flush=True)
            stage.draw = None if seed is None else random.Random(f"{trial.name} {seed}")
            try:
                _play(trial, stage, out)
            except RecorderError as error:
                if trial.is_cold:
                    raise
                print(f"{trial.name}: {error}", file=sys.stderr)
            if trial.is_cold:
                _background(stage, apps)
                is_up = True


@contextlib.contextmanager
def _stage(
    tools: Tools, more: Path, work: Path, logs: Path, *, has_racks: bool = False
) -> Iterator[tuple[Stage, Stage]]:
    """Make machines and a cluster that does not run yet; a stage for trials, one for the rest."""
    with contextlib.ExitStack() as at_end:
        switch = at_end.enter_context(Switch("corpus"))

        def machine(name: str, host: int) -> Machine:
            return at_end.enter_context(Machine(f"corpus-{name}", host, switch))

        nodes = [machine(f"node-{number}", 10 + number) for number in range(1, NODES + 1)]
        trio = Trio(tools, nodes, work, has_racks=has_racks)
        trio.format()
        at_end.callback(trio.stop)
        stages = []
        for name, host in (("jobs", JOBS), ("apps", APPS)):
            (logs / name).mkdir(parents=True, exist_ok=True)
            stage = Stage(tools, switch, trio, machine(name, host), more, logs / name)
            at_end.callback(stage.end_all)
            stages.append(stage)
        yield stages[0], stages[1]


def _background(stage: Stage, apps: Stage) -> None:
    """Start what goes on beside all trials: Java, librdkafka and kafka-python, a little each."""
    stage.topic("orders", 6)
    apps.worker("background", client_id="shop", topic="orders", per_s=5)
    where = f"bootstrap.servers={stage.bootstrap}"
    words = ["--topic", "orders", "--num-records", "100000000", "--record-size", "400"]
    words += ["--throughput", "10", "--producer-props", where, "acks=all", "client.id=till"]
    apps.java(PERFORMANCE, *words)
    words = ["--bootstrap-server", stage.bootstrap, "--topic", "orders", "--group", "billing"]
    apps.java(CONSUMER, *words)
    time.sleep(10)


def _play(trial: Trial, stage: Stage, out: Path) -> None:
    file = out / f"{trial.name}.pcap"
    if not trial.is_cold:
        stage.trio.start_missing()
        trial.prepare(stage)
    stage.trial, stage.fault_ns = trial.name, None
    sniffer = Sniffer(Recording(BRIDGE), stage.switch.namespace, file, "tcp")
    try:
        time.sleep(QUIET_S)
        trial.play(stage)
        time.sleep(QUIET_S)
        taken = sniffer.stop()
    except BaseException:
        sniffer.abandon()
        raise
    finally:
        stage.end_all()
    if taken.dropped:
        raise RecorderError(f"{trial.name}: {taken.dropped} packets dropped")
    _truth(out, trial).write_text(json.dumps(stage.fault_ns))


def _judge(wanted: Sequence[Trial], folders: Sequence[Path], results: Path) -> None:
    """Judge each recording; those of other trials stay as they were judged."""
    before = json.loads(results.read_text())["recordings"] if results.exists() else []
    names = {trial.name for trial in wanted}
    rows: list[dict[str, Any]] = [row for row in before if row["name"] not in names]
    for trial in wanted:
        recorded = [folder for folder in folders if _truth(folder, trial).exists()]
        print(f"{trial.name}: {len(recorded)} recordings")
        for number, folder in enumerate(recorded, 1):
            fault = json.loads(_truth(folder, trial).read_text())
            found = findings_in(folder / f"{trial.name}.pcap", folder / f"{trial.name}.report.json")
            if fault and found and found[0]["first_time_ns"]:
                met_ns = _met_ns(folder, trial, fault[0])
                fault = (min(max(fault[0], found[0]["first_time_ns"]), met_ns), fault[1])
            row = verdict(trial, found, fault and tuple(fault))
            rows.append({"name": trial.name, "recording": number, **row})
            print(f"    {row['wrong'] or 'right'}; {row['first']}: {row['what']}", flush=True)
    order = {trial.name: place for place, trial in enumerate(ALL)}
    rows.sort(key=lambda row: order[row["name"]])
    answers = {"scores": scores(rows), "recordings": rows}
    results.write_text(json.dumps(answers, indent=2, ensure_ascii=False) + "\n")
    print(answers["scores"])


def _met_ns(folder: Path, trial: Trial, begin_ns: int) -> int:
    """Return when the machine of the trial's clients first sent something in spite of a fault.

    A client in Java takes seconds to start, on a busy machine many. A fault without clients of its
    own has begun when it was made.
    """
    words = ["tcpdump", "-n", "-tt", "--time-stamp-precision=nano", "-r"]
    sent = ["src", "host", f"{NETWORK}.{JOBS}"]
    lines = run([*words, str(folder / f"{trial.name}.pcap"), *sent], timeout=60).stdout.splitlines()
    times = (int(line.partition(" ")[0].replace(".", "")) for line in lines)
    return min((at_ns for at_ns in times if at_ns >= begin_ns), default=begin_ns)


def _truth(folder: Path, trial: Trial) -> Path:
    """Return the file that says when the fault was there; it is written when all is recorded."""
    return folder / f"{trial.name}.fault.json"


def _keep(wanted: Sequence[Trial], out: Path) -> None:
    """Copy what the machine of a trial's clients sent and got, and what is right to find there."""
    KEPT.mkdir(exist_ok=True)
    for trial in wanted:
        if trial.expected is None:
            raise ValueError(f"{trial.name} is no fault")
        file = KEPT / f"{trial.name}.pcap"
        words = ["tcpdump", "-Z", "root", "-r", str(out / f"{trial.name}.pcap"), "-w", str(file)]
        run([*words, "--time-stamp-precision=nano", f"host {NETWORK}.{JOBS}"], timeout=60)
        fault = json.loads(_truth(out, trial).read_text())
        truth = {
            "capture": file.name,
            "summary": f"{trial.summary[0].upper()}{trial.summary[1:]}.",
            "fault": trial.expected.findings[0],
            "concerns": dict(trial.expected.concerns),
            "fault_ns": fault if trial.expected.is_timed else None,
            "made_by": f"tools/record/corpus.py {trial.name}",
        }
        file.with_suffix(".truth.json").write_text(json.dumps(truth, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
