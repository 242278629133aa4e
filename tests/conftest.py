"""Settings, hooks and fixtures of all tests."""

from __future__ import annotations

import atexit
import functools
import gc
import os
import shutil
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from kanalyze.common.garbage_collection import collect_rarely
from kanalyze.queries import findings
from kanalyze.queries.files import built_in
from tests.support import broker, netns, rights
from tests.support.few_findings import FEW_FINDINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from kanalyze.queries.files import Query
    from tests.support.remembered_answers import RememberedAnswers

# No test is about speed, and a busy machine is no failure. The landing check tries the same
# examples each time, so that a new failing example does not block an unrelated change.
IS_LANDING = bool(os.environ.get("CI"))
settings.register_profile("often", deadline=None, derandomize=IS_LANDING, max_examples=12)
settings.register_profile("long", deadline=None, derandomize=IS_LANDING)
settings.load_profile("long")

TESTS = Path(__file__).parent

# Tests do not depend on preferences for output and on proxies in the environment, which programs
# that tests start would inherit.
for preference in ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE"):
    os.environ.pop(preference, None)
for name in ("no_proxy", "NO_PROXY"):
    os.environ[name] = ",".join(
        filter(None, [os.environ.get(name), "localhost", "127.0.0.1", "::1", "[::1]"])
    )
# Tests give the same results under sudo: without this, live would continue as another user.
for name in ("SUDO_UID", "SUDO_GID"):
    os.environ.pop(name, None)

PROGRAMS = {
    "tshark": "its results are compared with ours",
    "tcpdump": "filters are compared with its own",
    "promtool": "it checks our metrics",
    "prometheus": "long tests run the queries of our dashboard on it",
    "chromium": "it opens the HTML page",
    "openssl": "tests decrypt the data of its server",
    "git": "figures of benchmarks are of its revisions",
}
"""Programs that tests compare with; ``*_PROGRAM.py`` is not collected without it."""
MISSING_PROGRAMS = [name for name in PROGRAMS if shutil.which(name) is None]
collect_ignore_glob = [f"*_{name}.py" for name in MISSING_PROGRAMS]
# These tests run sudo as root.
if not netns.can_be_made():
    collect_ignore_glob.append("*_sudo.py")
# Spark is a Java program.
HAS_JAVA = bool(os.environ.get("JAVA_HOME")) or shutil.which("java") is not None
SPARK_FIXTURES = frozenset({"spark", "cluster"})
# Interfaces of our own, on which tcpdump listens too.
HAS_NAMESPACES = netns.can_be_made() and "tcpdump" not in MISSING_PROGRAMS
# Interfaces without a link layer.
HAS_TUNNELS = HAS_NAMESPACES and netns.can_have_tunnels()
# A user with fewer rights than root.
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
"""Tests that use one of these fixtures are not selected."""


def pytest_configure(config: pytest.Config) -> None:
    """Try fewer examples where long tests are not selected; tests may have their own number.

    Commands show times of the machine's zone, which is UTC here.
    """
    os.environ["TZ"] = "UTC"
    time.tzset()
    if "not long" in config.option.markexpr:
        settings.load_profile("often")


@pytest.fixture
def namespace() -> Iterator[netns.Namespace]:
    """A network namespace with nothing in it but loopback."""
    with netns.Namespace() as namespace:
        yield namespace


@pytest.fixture
def tunnel(namespace: netns.Namespace) -> Iterator[int]:
    """Descriptor of the interface `tun7` in that namespace; packets written to it arrive there."""
    with namespace.tunnel("tun7") as descriptor:
        yield descriptor


@pytest.fixture
def ordinary_user() -> Callable[..., list[str]]:
    """Function for running a command as an ordinary user; see `tests/support/rights.py`."""
    return rights.ordinary_user


@contextmanager
def few_findings_are_looked_for() -> Iterator[None]:
    """Let reports look for few of the built-in findings, in tests that are not about findings.

    Their queries take two thirds of the time of a report on a small capture, most of it planning.
    """

    def some(kind: str) -> dict[str, Query]:
        found = built_in(kind)
        return {name: found[name] for name in FEW_FINDINGS} if kind == "findings" else found

    findings.built_in = some
    try:
        yield
    finally:
        findings.built_in = built_in


@pytest.fixture
def all_findings() -> None:
    """Let reports look for all built-in findings where they look for few (see below)."""


@functools.cache
def remembered_answers() -> RememberedAnswers:
    """Return the answers of queries in this process."""
    from tests.support.remembered_answers import RememberedAnswers  # because it imports pyarrow

    return RememberedAnswers()


@functools.cache
def folder_of(file: Path) -> str:
    """Return the name of the folder in which a test is."""
    return file.relative_to(TESTS).parts[0] if file.is_relative_to(TESTS) else ""


@pytest.fixture(autouse=True)
def _reports_of_others(request: pytest.FixtureRequest) -> Iterator[None]:
    """Make reports fast outside of the folders with tests of queries.

    They look for few findings, and run no query twice on the same rows, which those of a batch are
    not: they are in files. Tests of the documentation look for all findings, because it shows all.
    ``monkeypatch`` would take 0.2 ms for each test.
    """
    folder = folder_of(request.path)
    with ExitStack() as stack:
        if folder != "queries" and "all_findings" not in request.fixturenames:
            if folder != "docs":
                stack.enter_context(few_findings_are_looked_for())
            if folder not in ("batch", "spark"):
                stack.enter_context(remembered_answers().repeated())
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, which takes a third of the time: all objects stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        # The same as in a process of kanalyze: rows are many objects without cycles.
        collect_rarely()
        # DuckDB's binding reports objects that are left at the end of the process, so they are
        # unfrozen there. Before that, pytest runs the garbage collector twice, which would take
        # seconds with all collected objects.
        atexit.register(gc.unfreeze)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Make no items of long tests unless these are selected: they are a third of all."""
    mark_conditions = collector.config.option.markexpr.split(" and ")
    is_long = any(mark.name == "long" for mark in getattr(obj, "pytestmark", ()))
    return [] if is_long and "not long" in mark_conditions else None


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that run Spark and put them last, or leave them out without Java.

    The threads of a session stay in this process, and other tests fork, which a process with
    threads should not do.
    """
    mark_all_but_few(items)
    running, others = [], []
    for item in items:
        if SPARK_FIXTURES.intersection(fixture_names(item)) or item.get_closest_marker("spark"):
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
    """Mark as long the sets of arguments that tests with the mark ``few`` do not run by default."""
    sets_of_tests: dict[tuple[Path, str], list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("few") and not item.get_closest_marker("long"):
            name = item.nodeid.partition("[")[0]
            sets_of_tests.setdefault((item.path, name), []).append(item)
    for sets in sets_of_tests.values():
        mark = sets[0].get_closest_marker("few")
        assert mark is not None
        (count,) = mark.args
        # At random, not every second: those would all have the same one of two values.
        chosen = Random(sets[0].name.partition("[")[0]).sample(range(len(sets)), count)
        for number, item in enumerate(sets):
            if number not in chosen:
                item.add_marker("long")


def fixture_names(item: pytest.Item) -> list[str]:
    return item.fixturenames if isinstance(item, pytest.Function) else []


def pytest_report_header() -> list[str]:
    """Report which tests are left out, so that a run without them is not taken for a full one."""
    return [
        *(
            f"{name}: not found, no test_*_{name}.py is collected"
            if name in MISSING_PROGRAMS
            else f"{name}: found, {what}"
            for name, what in PROGRAMS.items()
        ),
        "java: found, tests run Spark"
        if HAS_JAVA
        else "java: not found, no test that runs Spark is selected",
        "network namespaces: live captures are compared with tcpdump's"
        if HAS_NAMESPACES
        else "network namespaces: not available (they need Linux, root with the right to make them,"
        " ip and tcpdump); no test that captures is selected",
        "tunnels: captured on too"
        if HAS_TUNNELS
        else "tunnels: not available (they need namespaces and /dev/net/tun); no test that captures"
        " on one is selected",
        "other users: tests try the rights of an ordinary user"
        if HAS_OTHER_USERS
        else "other users: not available (they need Linux, root and setpriv); no test of the rights"
        " of an ordinary user is selected",
        "Kafka: found where the recorder keeps it, long tests listen to it"
        if HAS_BROKER
        else "Kafka: a broker and what it needs are not found where tools/record/record.py keeps"
        " them; no test that starts a broker is selected",
    ]
