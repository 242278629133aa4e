"""What is left of a lossy capture, ours beside tshark's.

    python -m benchmarks.loss [--seeds N] [--capture NAME ...] [--markdown FILE]

Drops none, 0.1 %, 1 % and 10 % of the packets of each capture in captures/, and all before a random
packet, and counts: exchanges that no loss touched, how many of these come out right, how many are
missing, and how many rows say what was not so. tshark is asked on the same files for the requests
and responses that it pairs (``kafka.request_frame``, ``kafka.response_frame``), with each broker's
port told to it; a pair of packets and ids that the whole capture does not have is wrong.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.captures import NAMES, analysis
from tests.support.loss import Lossy, pcap_without

SHARES = (0.001, 0.01, 0.1)


def dropped(lossy: Lossy, share: float | None, noise: random.Random) -> frozenset[int]:
    """Choose packets: each with a probability, or all before one (None)."""
    if share == 0:
        return frozenset()
    if share is None:
        return lossy.with_copies(range(1, noise.randint(2, lossy.packets)))
    numbers = [number for number in range(1, lossy.packets + 1) if noise.random() < share]
    return lossy.with_copies(numbers or [noise.randint(1, lossy.packets)])


def tshark_pairs(data: bytes, ports: list[int]) -> set[tuple[int, int, str]]:
    """Return (last packet of the request, of the response, correlation id) of what tshark pairs."""
    with tempfile.NamedTemporaryFile(suffix=".pcap") as file:
        file.write(data)
        file.flush()
        command = ["tshark", "-r", file.name, "-Y", "kafka.request_frame", "-T", "fields"]
        for field in ("frame.number", "kafka.request_frame", "kafka.correlation_id"):
            command += ["-e", field]
        for port in ports:
            command += ["-d", f"tcp.port=={port},kafka"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    pairs = set()
    for line in done.stdout.splitlines():
        response, requests, ids = (part.split(",") for part in line.split("\t"))
        if len(requests) == len(ids):
            pairs |= {(int(r), int(response[0]), i) for r, i in zip(requests, ids, strict=True)}
    return pairs


def compare(name: str, share: float | None, seeds: int) -> Counter[str]:
    """Count what comes out of some lossy versions of a capture."""
    lossy, counts = Lossy(name), Counter[str]()
    ports = sorted({row.broker_port for row in analysis(name)[0]})
    for seed in range(seeds):
        gone = dropped(lossy, share, random.Random(f"{name} {share} {seed}"))
        judgement = lossy.judge(gone)
        counts["untouched"] += judgement.untouched
        counts["right"] += judgement.right
        counts["wrong"] += len(judgement.wrong)
        kept = [number for number in range(1, lossy.packets + 1) if number not in gone]
        true = lossy.last_packets()
        pairs = tshark_pairs(pcap_without(name, gone), ports)
        theirs = {(kept[asked - 1], kept[told - 1], id_) for asked, told, id_ in pairs}
        untouched = {pair for pair, packets in true.items() if not packets & gone}
        counts["tshark untouched"] += len(untouched)
        counts["tshark right"] += len(theirs & untouched)
        counts["tshark wrong"] += len(theirs - set(true))
    return counts


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--capture", action="append", default=[], choices=NAMES)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    names = arguments.capture or [name for name in NAMES if analysis(name)[0]]
    heads = "dropped", "untouched", "right", "missing", "wrong"
    tshark = "tshark: untouched", "right", "missing", "wrong"
    lines = ["| " + " | ".join((*heads, *tshark)) + " |", "|" + "---|" * 9]
    for share in (0.0, *SHARES, None):
        counts = sum(
            (compare(name, share, arguments.seeds if share != 0 else 1) for name in names),
            Counter[str](),
        )
        label = "all before a packet" if share is None else f"{100 * share:g} %"
        cells = [
            label,
            counts["untouched"],
            counts["right"],
            counts["untouched"] - counts["right"],
            counts["wrong"],
            counts["tshark untouched"],
            counts["tshark right"],
            counts["tshark untouched"] - counts["tshark right"],
            counts["tshark wrong"],
        ]
        lines.append("| " + " | ".join(f"{c:,}" if isinstance(c, int) else c for c in cells) + " |")
        print(lines[-1], flush=True)
    if arguments.markdown:
        arguments.markdown.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
