"""What pytest is to know before it collects."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.support import broker, netns

if TYPE_CHECKING:
    from collections.abc import Iterator

# No test is about speed, and a busy machine is no failure. The landing check tries the same
# examples each time: a new one that fails is news for whoever runs the tests, not for an
# unrelated change.
settings.register_profile("everyone", deadline=None)
settings.register_profile("landing", deadline=None, derandomize=True)
settings.load_profile("landing" if os.environ.get("CI") else "everyone")

# Who runs the tests by sudo is to find the same: live would go on as another user.
for name in ("SUDO_UID", "SUDO_GID"):
    os.environ.pop(name, None)

# The oracle is a program of its own; where it is not installed there is nothing to ask.
HAS_TSHARK = shutil.which("tshark") is not None
collect_ignore_glob = [] if HAS_TSHARK else ["*_tshark.py"]
HAS_PROMTOOL = shutil.which("promtool") is not None
if not HAS_PROMTOOL:
    collect_ignore_glob.append("*_promtool.py")
HAS_PROMETHEUS = shutil.which("prometheus") is not None
if not HAS_PROMETHEUS:
    collect_ignore_glob.append("*_prometheus.py")
# Of root by sudo, which others are not.
if not netns.can_be_made():
    collect_ignore_glob.append("*_sudo.py")
# Spark is a Java program.
HAS_JAVA = bool(os.environ.get("JAVA_HOME")) or shutil.which("java") is not None
SPARK_FIXTURES = frozenset({"spark", "cluster"})
# Interfaces of our own, beside which tcpdump listens too.
HAS_NAMESPACES = netns.can_be_made() and shutil.which("tcpdump") is not None
HAS_BROKER = broker.is_there()


@pytest.fixture
def namespace() -> Iterator[netns.Namespace]:
    """A network namespace with nothing in it but loopback."""
    with netns.Namespace() as namespace:
        yield namespace


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests that run Spark last, or leave them out where there is no Java.

    The threads of a session stay in this process, and a process with threads is not to be forked,
    which is what other tests do.
    """
    running, others = [], []
    for item in items:
        runs_spark = SPARK_FIXTURES.intersection(fixture_names(item))
        (running if runs_spark else others).append(item)
    if not HAS_JAVA:
        config.hook.pytest_deselected(items=running)
        running = []
    if not HAS_NAMESPACES:
        listening = [item for item in others if "namespace" in fixture_names(item)]
        config.hook.pytest_deselected(items=listening)
        others = [item for item in others if "namespace" not in fixture_names(item)]
    if not HAS_BROKER:
        served = [item for item in others if "real_broker" in fixture_names(item)]
        config.hook.pytest_deselected(items=served)
        others = [item for item in others if "real_broker" not in fixture_names(item)]
    items[:] = others + running


def fixture_names(item: pytest.Item) -> list[str]:
    return item.fixturenames if isinstance(item, pytest.Function) else []


def pytest_report_header() -> list[str]:
    """Say what is left out, so that a run without it does not look like one with it."""
    return [
        "tshark: found, its answers are compared with ours"
        if HAS_TSHARK
        else "tshark: not found, no test_*_tshark.py and no test_tshark.py is collected",
        "promtool: found, it checks our metrics"
        if HAS_PROMTOOL
        else "promtool: not found, no test_*_promtool.py is collected",
        "prometheus: found, long tests ask it what our dashboard asks"
        if HAS_PROMETHEUS
        else "prometheus: not found, no test_*_prometheus.py is collected",
        "java: found, tests run Spark"
        if HAS_JAVA
        else "java: not found, no test that runs Spark is among those selected",
        "network namespaces: live captures are compared with tcpdump's"
        if HAS_NAMESPACES
        else "network namespaces: take Linux, root, ip and tcpdump; no test that captures is among"
        " those selected",
        "Kafka: found where the recorder keeps it, long tests listen to it"
        if HAS_BROKER
        else "Kafka: not found where tools/record/record.py keeps it, or not what it runs on; no"
        " test that starts a broker is among those selected",
    ]
