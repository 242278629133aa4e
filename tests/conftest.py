"""What pytest is to know before it collects."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from kanalyze.queries.files import built_in
from tests.support import broker, netns, rights
from tests.support.few_findings import FEW_FINDINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from kanalyze.queries.files import Query
    from tests.support.remembered_answers import RememberedAnswers

# No test is about speed, and a busy machine is no failure. The landing check tries the same
# examples each time: a new one that fails is news for whoever runs the tests, not for an
# unrelated change.
IS_LANDING = bool(os.environ.get("CI"))
settings.register_profile("often", deadline=None, derandomize=IS_LANDING, max_examples=12)
settings.register_profile("long", deadline=None, derandomize=IS_LANDING)
settings.load_profile("long")

TESTS = Path(__file__).parent

# What who runs the tests prefers to see, and how he reaches others, is not what is tested; programs
# that tests start would inherit it.
for preference in ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE"):
    os.environ.pop(preference, None)
for name in ("no_proxy", "NO_PROXY"):
    os.environ[name] = ",".join(
        filter(None, [os.environ.get(name), "localhost", "127.0.0.1", "::1", "[::1]"])
    )
# Who runs the tests by sudo is to find the same: live would go on as another user.
for name in ("SUDO_UID", "SUDO_GID"):
    os.environ.pop(name, None)

# The oracle is a program of its own; where it is not installed there is nothing to ask.
HAS_TSHARK = shutil.which("tshark") is not None
collect_ignore_glob = [] if HAS_TSHARK else ["*_tshark.py"]
HAS_TCPDUMP = shutil.which("tcpdump") is not None
if not HAS_TCPDUMP:
    collect_ignore_glob.append("*_tcpdump.py")
HAS_PROMTOOL = shutil.which("promtool") is not None
if not HAS_PROMTOOL:
    collect_ignore_glob.append("*_promtool.py")
HAS_PROMETHEUS = shutil.which("prometheus") is not None
if not HAS_PROMETHEUS:
    collect_ignore_glob.append("*_prometheus.py")
HAS_CHROMIUM = shutil.which("chromium") is not None
if not HAS_CHROMIUM:
    collect_ignore_glob.append("*_chromium.py")
HAS_OPENSSL = shutil.which("openssl") is not None
if not HAS_OPENSSL:
    collect_ignore_glob.append("*_openssl.py")
# Of root by sudo, which others are not.
if not netns.can_be_made():
    collect_ignore_glob.append("*_sudo.py")
# Spark is a Java program.
HAS_JAVA = bool(os.environ.get("JAVA_HOME")) or shutil.which("java") is not None
SPARK_FIXTURES = frozenset({"spark", "cluster"})
# Interfaces of our own, beside which tcpdump listens too.
HAS_NAMESPACES = netns.can_be_made() and HAS_TCPDUMP
# Interfaces without a link layer.
HAS_TUNNELS = HAS_NAMESPACES and netns.can_have_tunnels()
# Somebody with fewer rights than root.
HAS_OTHER_USERS = rights.can_be_given_up()
HAS_BROKER = broker.is_there()
MISSING_FIXTURES = frozenset(
    name
    for name, is_there in (
        ("namespace", HAS_NAMESPACES),
        ("tunnel", HAS_TUNNELS),
        ("ordinary_user", HAS_OTHER_USERS),
        ("real_broker", HAS_BROKER),
    )
    if not is_there
)
"""Tests that ask for one of these are not selected."""


def pytest_configure(config: pytest.Config) -> None:
    """Try fewer examples where long tests are not selected; tests may have their own number."""
    if "not long" in config.option.markexpr:
        settings.load_profile("often")


@pytest.fixture
def namespace() -> Iterator[netns.Namespace]:
    """A network namespace with nothing in it but loopback."""
    with netns.Namespace() as namespace:
        yield namespace


@pytest.fixture
def tunnel(namespace: netns.Namespace) -> Iterator[int]:
    """Descriptor of the interface `tun7` in that namespace, which is up: for what arrives at it."""
    with namespace.tunnel("tun7") as descriptor:
        yield descriptor


@pytest.fixture
def ordinary_user() -> Callable[..., list[str]]:
    """What runs a command as an ordinary user (see :func:`tests.support.rights.ordinary_user`)."""
    return rights.ordinary_user


@pytest.fixture
def few_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let reports look for few of the built-in findings, in tests of something else.

    Two thirds of the time of a report on a small capture are their queries, most of it planning.
    """

    def some(kind: str) -> dict[str, Query]:
        found = built_in(kind)
        return {name: found[name] for name in FEW_FINDINGS} if kind == "findings" else found

    monkeypatch.setattr("kanalyze.queries.findings.built_in", some)


@pytest.fixture
def all_findings() -> None:
    """Let reports look for all built-in findings, where they look for few (see below)."""


@pytest.fixture(scope="session")
def remembered_answers() -> RememberedAnswers:
    """What queries have answered in this process."""
    from tests.support.remembered_answers import RememberedAnswers  # it imports pyarrow

    return RememberedAnswers()


@pytest.fixture(autouse=True)
def _reports_of_others(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let reports take little time outside of the folders whose tests are of queries.

    They look for few findings, and ask no query twice of the same rows. What the documentation
    shows are all findings.
    """
    folder = request.path.relative_to(TESTS).parts[0] if request.path.is_relative_to(TESTS) else ""
    if folder in ("queries", "spark") or "all_findings" in request.fixturenames:
        return
    if folder != "docs":
        request.getfixturevalue("few_findings")
    request.getfixturevalue("remembered_answers").patch(monkeypatch)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for cycles, which takes a third of the time: all stays to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        # As in a process of kanalyze: rows are many objects without cycles.
        gc.set_threshold(100_000, 50, 100)
        # DuckDB's binding reports what is left at the end of the process. Before that, pytest looks
        # for cycles twice, which takes seconds where it looks at all that was collected.
        atexit.register(gc.unfreeze)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Make no items of long tests where these are not asked for: they are a third of all."""
    asked_for = collector.config.option.markexpr.split(" and ")
    is_long = any(mark.name == "long" for mark in getattr(obj, "pytestmark", ()))
    return [] if is_long and "not long" in asked_for else None


@pytest.hookimpl(tryfirst=True)  # before the marks that are asked for are looked at
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that run Spark and put them last, or leave them out where there is no Java.

    The threads of a session stay in this process, and a process with threads is not to be forked,
    which is what other tests do.
    """
    mark_all_but_few(items)
    running, others = [], []
    for item in items:
        if SPARK_FIXTURES.intersection(fixture_names(item)):
            item.add_marker("spark")
            running.append(item)
        else:
            others.append(item)
    if not HAS_JAVA:
        config.hook.pytest_deselected(items=running)
        running = []
    wanting = [item for item in others if MISSING_FIXTURES.intersection(fixture_names(item))]
    config.hook.pytest_deselected(items=wanting)
    items[:] = [item for item in others if item not in wanting] + running


def mark_all_but_few(items: list[pytest.Item]) -> None:
    """Mark as long what tests with the mark ``few`` do not run by default."""
    sets_of_tests: dict[tuple[Path, str], list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("few") and not item.get_closest_marker("long"):
            name = item.nodeid.partition("[")[0]
            sets_of_tests.setdefault((item.path, name), []).append(item)
    for sets in sets_of_tests.values():
        mark = sets[0].get_closest_marker("few")
        assert mark is not None
        (count,) = mark.args
        # Not every second: these would all have the same of two values.
        chosen = Random(sets[0].name.partition("[")[0]).sample(range(len(sets)), count)
        for number, item in enumerate(sets):
            if number not in chosen:
                item.add_marker("long")


def fixture_names(item: pytest.Item) -> list[str]:
    return item.fixturenames if isinstance(item, pytest.Function) else []


def pytest_report_header() -> list[str]:
    """Say what is left out, so that a run without it does not look like one with it."""
    return [
        "tshark: found, its answers are compared with ours"
        if HAS_TSHARK
        else "tshark: not found, no test_*_tshark.py and no test_tshark.py is collected",
        "tcpdump: found, filters are compared with its own"
        if HAS_TCPDUMP
        else "tcpdump: not found, no test_*_tcpdump.py is collected",
        "promtool: found, it checks our metrics"
        if HAS_PROMTOOL
        else "promtool: not found, no test_*_promtool.py is collected",
        "prometheus: found, long tests ask it what our dashboard asks"
        if HAS_PROMETHEUS
        else "prometheus: not found, no test_*_prometheus.py is collected",
        "chromium: found, it opens the HTML page"
        if HAS_CHROMIUM
        else "chromium: not found, no test_*_chromium.py is collected",
        "openssl: found, we decrypt what its server sends"
        if HAS_OPENSSL
        else "openssl: not found, no test_*_openssl.py is collected",
        "java: found, tests run Spark"
        if HAS_JAVA
        else "java: not found, no test that runs Spark is among those selected",
        "network namespaces: live captures are compared with tcpdump's"
        if HAS_NAMESPACES
        else "network namespaces: take Linux, root that may make them, ip and tcpdump; no test that"
        " captures is among those selected",
        "tunnels: captured on too"
        if HAS_TUNNELS
        else "tunnels: take namespaces and /dev/net/tun; no test that captures on one is among"
        " those selected",
        "other users: what they may is tried"
        if HAS_OTHER_USERS
        else "other users: take Linux, root and setpriv; no test of what an ordinary user may is"
        " among those selected",
        "Kafka: found where the recorder keeps it, long tests listen to it"
        if HAS_BROKER
        else "Kafka: not found where tools/record/record.py keeps it, or not what it runs on; no"
        " test that starts a broker is among those selected",
    ]
