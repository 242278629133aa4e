#!/usr/bin/env python3
"""Cut captures of TLS: those that begin late, lose packets, or carry their secrets.

    cut_tls.py [FOLDER]     write them beside the captures that they are made from

Needs editcap and tshark. What is left out of each is in its ``*.truth.json``.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import RecorderError
from lab.pcapng import without_machine
from lab.processes import need, run
from lab.provenance import write as write_provenance
from lab.sniffer import version
from lab.tlsfiles import write_reading

FOLDER = Path(__file__).resolve().parents[2] / "captures" / "tls"
LONG = ("tls13-long", "tls12-long", "tls12-cbc-long")
LOST_ONE_IN = 7
WITH_SECRETS = ("tls13-kcat", "tls12-etm-sha256")


@dataclass(frozen=True)
class Packet:
    """A packet of a capture: its place in the file, the client's port, and its bytes of TCP."""

    number: int
    client_port: int
    from_client: bool
    size: int


def packets(capture: Path, port: int) -> list[Packet]:
    """Return a capture's packets, as tshark numbers them."""
    fields = ("frame.number", "tcp.srcport", "tcp.dstport", "tcp.len")
    words = ["tshark", "-r", str(capture), "-T", "fields"]
    for name in fields:
        words += ["-e", name]
    found = []
    for line in run(words, timeout=60).stdout.splitlines():
        number, source, target, size = (int(value) for value in line.split("\t"))
        from_client = target == port
        client_port = source if from_client else target
        found.append(Packet(number, client_port, from_client, size))
    return found


def busiest(whole: Sequence[Packet]) -> int:
    """Return the client's port of the connection with most requests."""
    asked = Counter(one.client_port for one in whole if one.from_client and one.size)
    return asked.most_common(1)[0][0]


def before(whole: Sequence[Packet]) -> list[int]:
    """Return what a capture lacks that begins in the midst of its busiest connection."""
    own = [one.number for one in whole if one.client_port == busiest(whole)]
    middle = own[len(own) // 2]
    return [one.number for one in whole if one.number < middle]


def lost(whole: Sequence[Packet]) -> list[int]:
    """Return all but the busiest connection, and of that some packets of each direction."""
    kept = busiest(whole)
    found = [one.number for one in whole if one.client_port != kept]
    for from_client in (True, False):
        way = [one for one in whole if one.client_port == kept and one.from_client == from_client]
        with_content = [one.number for one in way if one.size]
        # The first few are the handshake.
        found += with_content[LOST_ONE_IN - 1 :: LOST_ONE_IN]
    return sorted(found)


CUTS: dict[str, tuple[str, Callable[[Sequence[Packet]], list[int]]]] = {
    "late": ("Begins in the midst of the busiest connection, long after its handshake.", before),
    "lost": (f"The busiest connection without one in {LOST_ONE_IN} packets with content.", lost),
}


def cut(folder: Path, name: str, kind: str) -> str:
    """Write a capture without some packets, and what is not in it; return its name."""
    summary, choose = CUTS[kind]
    source = json.loads((folder / f"{name}.truth.json").read_text())
    [port] = source["ports"].values()
    label = f"{name.removesuffix('-long')}-{kind}"
    capture = folder / f"{label}.pcap"
    left_out = choose(packets(folder / source["capture"], port))
    numbers = [str(number) for number in left_out]
    command = ["editcap", "-F", "nsecpcap", str(folder / source["capture"]), str(capture), *numbers]
    run(command, timeout=60)
    truth = _about(source, capture, f"{summary} Of {name}.", len(left_out))
    truth |= {"whole": False, "left_out": left_out}
    _write(folder, label, truth)
    write_reading(folder, label, capture, folder / f"{name}.keys", [port])
    return label


def embed(folder: Path, name: str) -> str:
    """Write a capture with its secrets inside: ``editcap --inject-secrets``; return its name."""
    source = json.loads((folder / f"{name}.truth.json").read_text())
    label = f"{name}-embedded"
    capture, keylog = folder / f"{label}.pcapng", folder / f"{name}.keys"
    secrets = ["--inject-secrets", f"tls,{keylog}"]
    run(["editcap", *secrets, str(folder / source["capture"]), str(capture)], timeout=60)
    capture.write_bytes(without_machine(capture.read_bytes()))
    summary = f"{name} as pcapng, with its secrets inside."
    _write(folder, label, _about(source, capture, summary, 0))
    write_reading(folder, label, capture, None, source["ports"].values())
    return label


def _about(source: dict[str, Any], capture: Path, summary: str, left_out: int) -> dict[str, Any]:
    keys = ("format", "dropped_by_kernel", "link_type", "mtu", "segmentation_offload", "ports")
    return {
        **{key: source[key] for key in keys},
        "capture": capture.name,
        "cut_from": source["capture"],
        "summary": summary,
        "packets": source["packets"] - left_out,
        "made_by": source["made_by"]
        | {"command": "python3 tools/record/cut_tls.py", "cut_program": version("editcap")},
        "clients": source["clients"],
    }


def _write(folder: Path, label: str, truth: dict[str, Any]) -> None:
    (folder / f"{label}.truth.json").write_text(json.dumps(truth, indent=1) + "\n")


def main(words: Sequence[str]) -> int:
    """Make them all; 2 when something stands in the way."""
    folder = Path(words[0]) if words else FOLDER
    try:
        need("editcap", "tshark")
        for name in LONG:
            for kind in CUTS:
                print(cut(folder, name, kind), flush=True)
        for name in WITH_SECRETS:
            print(embed(folder, name), flush=True)
        write_provenance(folder)
    except RecorderError as error:
        print(f"cut_tls.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
