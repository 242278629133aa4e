"""A real broker and real clients, as the recorder of our captures starts them.

Kafka's jars and the clients are those that the recorder downloaded into its cache: nothing is
downloaded here. Modules of the recorder are imported inside the functions, because a source
distribution does not have them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.support.netns import Namespace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

RECORDER = Path(__file__).resolve().parents[2] / "tools" / "record"
PROGRAMS = ("java", "mvn", "tcpdump", "ip", "ss", "openssl")
WHOLE_PACKETS = ("gso_max_size", "1500", "gso_max_segs", "1")


def is_there() -> bool:
    """Whether a broker and clients can be started here without a download."""
    if sys.platform != "linux" or os.geteuid() != 0 or not (RECORDER / "lab").is_dir():
        return False
    if not all(map(shutil.which, PROGRAMS)):
        return False
    with importable():
        from lab.cache import cache_folder, kafka_version
    wanted = (f"kafka-{kafka_version()}-*", "clients-*")
    return all(any(cache_folder().glob(f"{name}/.complete")) for name in wanted)


@contextlib.contextmanager
def importable() -> Iterator[None]:
    """Let the recorder's modules be imported."""
    sys.path.insert(0, str(RECORDER))
    try:
        yield
    finally:
        sys.path.remove(str(RECORDER))


@contextlib.contextmanager
def started(folder: Path) -> Iterator[Any]:
    """Start a broker in a namespace of its own; give the recorder's `Lab` for it."""
    with importable():
        from lab.broker import Broker
        from lab.cache import fetch
        from lab.scenario import Lab
    tools = fetch()
    with Namespace() as namespace:
        namespace.ip("link", "set", "lo", "mtu", "1500", *WHOLE_PACKETS)
        network = Network(namespace)
        with Broker(tools, network, folder) as broker:
            yield Lab(tools, network, folder, broker)


class Network(NamedTuple):
    """A namespace of ours, in place of the recorder's own."""

    namespace: Namespace

    def command(self, words: Sequence[str]) -> list[str]:
        """The words that run a command in the namespace."""
        return self.namespace.command(*words)
