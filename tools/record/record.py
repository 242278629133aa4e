#!/usr/bin/env python3
"""Record real Kafka traffic, with what the broker and its clients counted while it went on.

    record.py [SCENARIO ...]     record these, or all of them
    record.py --list             say which there are

Needs root on Linux, and java, mvn, tcpdump, dumpcap, ip, ethtool and openssl. Kafka's jars and the
Python clients are fetched once into $KANALYZE_CACHE (or the user's cache folder).
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.cache import fetch
from lab.errors import RecorderError
from lab.processes import need, need_root
from lab.provenance import write as write_provenance
from lab.scenario import Scenario
from lab.session import record
from scenarios import ALL

CAPTURES = Path(__file__).resolve().parents[2] / "captures"
TLS = "tls"
"""The folder of captures about TLS, in that of all."""


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="record.py", description=__doc__.splitlines()[0])
    parser.add_argument("scenario", nargs="*", help="names of scenarios (default: all)")
    parser.add_argument("--list", action="store_true", help="list the scenarios and stop")
    parser.add_argument("--out", type=Path, default=CAPTURES, help="folder for the results")
    parser.add_argument("--keep", action="store_true", help="keep the work folders, say where")
    return parser.parse_args(words)


def chosen(names: Sequence[str]) -> list[Scenario]:
    """The scenarios of these names, or all of them."""
    known = {scenario.name: scenario for scenario in ALL}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise RecorderError(f"no such scenario: {', '.join(unknown)} (see --list)")
    return [known[name] for name in names] or list(ALL)


def main(words: Sequence[str]) -> int:
    """Record what was asked for; 2 when something stands in the way."""
    given = arguments(words)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if given.list:
        for scenario in ALL:
            print(f"{scenario.name:20} {scenario.summary}")
        return 0
    try:
        wanted = chosen(given.scenario)
        need_root()
        need("java", "mvn", "tcpdump", "dumpcap", "capinfos", "ip", "ss", "ethtool", "openssl")
        tools = fetch()
        for scenario in wanted:
            print(f"{scenario.name}: recording", flush=True)
            folder = given.out / TLS if scenario.tls else given.out
            folder.mkdir(parents=True, exist_ok=True)
            told = record(scenario, tools, folder, keep=given.keep)
            write_provenance(folder)
            print(f"{scenario.name}: {told}", flush=True)
    except KeyboardInterrupt:
        print("record.py: stopped", file=sys.stderr)
        return 130
    except RecorderError as error:
        print(f"record.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
