"""Imports of each command: slow modules are loaded only by the commands that need them."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kanalyze.common import int_columns
from tests.support.few_findings import WITH_FEW_FINDINGS
from tests.support.packets import pcap_file

ROOT = Path(__file__).parent.parent.parent
CAPTURE = "captures/basics.pcap"
SLOW = {
    *("numpy", "pandas", "pyarrow", "pyarrow.compute", "pyarrow.parquet"),
    *("rich", "rich.console"),
}
NEVER = {"asyncio", "dataclasses", "difflib", "fractions", "multiprocessing", "pandas", "unittest"}
"""No command below needs these. pandas is installed in tests, and pyarrow could load it."""

HEAVY = {
    *("base64", "bz2", "ctypes", "decimal", "glob", "inspect", "json", "lzma", "pathlib", "pickle"),
    *("shutil", "signal", "urllib", "urllib.parse", "ipaddress", "zlib"),
    *("kanalyze.capture.io.decompression", "kanalyze.capture.live.capture"),
}
"""Each takes 0.3 ms or more, and a report of a plain file needs none of it. Python itself takes 12
ms, and all of a report 60 at most."""

RARELY_NEEDED = {
    "decimal",
    "kanalyze.tables.anomalies",
    "kanalyze.tables.connections",
    "kanalyze.kafka.v07.exchanges",
    "kanalyze.capture.formats.pcapng",
    "kanalyze.kafka.session.signatures",
    "kanalyze.kafka.v07.connection",
    "kanalyze.kafka.v07.resync",
    "kanalyze.net.fragments",
    "kanalyze.kafka.v07.messages",
    "kanalyze.tls.session",
    "cryptography",
}
"""Modules that a pcap file with only Kafka 0.8 and later over TCP does not need."""

MAX_MODULES_OF_REQUESTS = 151
"""Modules of kanalyze, packages among them, that ``requests -o x.csv`` of a pcap file loads."""

STANDARD_OF_HELP = (
    *("__future__", "argparse", "contextlib", "errno", "gc", "locale", "math", "re", "signal"),
    "textwrap",
)
STANDARD_OF_REQUESTS = (
    *("__future__", "argparse", "array", "base64", "bisect", "collections.abc", "contextlib"),
    *("errno", "fnmatch", "gc", "importlib", "io", "json", "locale", "math", "re", "signal"),
    *("stat", "struct", "threading", "time", "types", "typing", "warnings"),
)
"""Modules of Python that ``--help`` and ``requests -o x.csv`` import; these import others."""
OWN_OF_HELP = {
    *("kanalyze", "kanalyze.version", "kanalyze.errors"),
    *("kanalyze.cli", "kanalyze.cli.main", "kanalyze.cli.arguments", "kanalyze.cli.console"),
    *("kanalyze.cli.interruption", "kanalyze.common", "kanalyze.common.compiled"),
    *("kanalyze.common.garbage_collection", "kanalyze.common.texts", "kanalyze.spec"),
    *("kanalyze.spec.commands", "kanalyze.spec.filters", "kanalyze.spec.options"),
}
"""All modules of kanalyze that ``--help`` loads."""

PRINT_MODULES = """\
import atexit, os, sys
@atexit.register
def print_modules():
    os.write(2, " ".join(sys.modules).encode())
"""
COMMAND = """\
from kanalyze.cli.main import run
run()
"""


ARGPARSE = """\
import argparse
argparse.ArgumentParser().add_argument("--some", help="some help")
"""


@functools.cache
def loaded_by_argparse() -> frozenset[str]:
    """Return the modules that argparse loads: from Python 3.14 on, ``dataclasses`` for colours."""
    return modules_after(ARGPARSE)


@functools.cache
def loaded_by_cython() -> frozenset[str]:
    """Return the modules that compiled modules load by themselves.

    Modules of a wheel for every Python version (abi3) read function flags from ``inspect``. If
    Cython compiles for one version, it takes the flags from the headers of Python.
    """
    is_for_every_python = int_columns.__file__.endswith(".abi3.so")
    return modules_after("import inspect") if is_for_every_python else frozenset()


@functools.cache
def modules_after(code: str, *argv: str, **environment: str) -> frozenset[str]:
    """Run code and return the names of all modules that are loaded at its end."""
    variables = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
    done = subprocess.run(
        [sys.executable, "-c", PRINT_MODULES + code, *argv],
        capture_output=True,
        check=True,
        cwd=ROOT,
        env={**variables, **environment},
    )
    return frozenset(done.stderr.decode().splitlines()[-1].split(" "))


def own_of(modules: frozenset[str]) -> frozenset[str]:
    """Return the modules of kanalyze among some."""
    return frozenset(name for name in modules if name.partition(".")[0] == "kanalyze")


def imported(*argv: str, **environment: str) -> frozenset[str]:
    """Run a command and return the names of all modules that are loaded at its end."""
    return modules_after(COMMAND, *argv, **environment)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("--help", set()),
        ("report --help", set()),
        ("live --help", set()),
        ("live --list", set()),
        ("protocol Fetch", set()),
        (f"report --json - {CAPTURE}", {"pyarrow"}),
        (f"requests {CAPTURE}", set()),
        (f"requests --format csv {CAPTURE}", set()),
        (f"records --format jsonl {CAPTURE}", set()),
        (f"decode {CAPTURE}", set()),
        (f"connections {CAPTURE}", set()),
        (f"anomalies {CAPTURE}", set()),
        (f"requests -o {{folder}}/x.parquet {CAPTURE}", {"pyarrow", "pyarrow.parquet"}),
        # Rows go to DuckDB as Arrow.
        ("report {folder}/empty.pcap", {"pyarrow"}),
        ("requests --format csv {folder}/empty.pcap", set()),
    ],
)
def test_a_command_imports_only_the_slow_modules_that_it_needs(command, expected, tmp_path):
    (tmp_path / "empty.pcap").write_bytes(pcap_file([]))
    modules = imported(*command.format(folder=tmp_path).split())
    # rich's table of characters is small, and used only for texts that are not ASCII.
    modules -= {"rich"} if "rich.console" not in modules else set()
    assert modules & SLOW == expected
    # DuckDB uses dataclasses; what lists interfaces does, too, and difflib.
    others = {"duckdb": {"dataclasses"}, "ctypes": {"dataclasses", "difflib"}}
    allowed = {name for each in others.keys() & modules for name in others[each]}
    assert modules & (NEVER - loaded_by_argparse()) <= allowed
    if command.startswith(("-", "live", "report --h")):
        assert not modules & {"kanalyze.runtime.pipeline", "kanalyze.api.library", "kanalyze.live"}
    if not command.startswith("live"):
        for name in ("kanalyze.live", "kanalyze.capture.live.capture", "kanalyze.capture.io.pipe"):
            assert not {module for module in modules if module.startswith(name)}
        assert not modules & {"scapy", "prometheus_client"}


def test_parsing_arguments_and_opening_captures_import_no_slow_modules(tmp_path):
    empty_capture = str(tmp_path / "empty.pcap")
    Path(empty_capture).write_bytes(pcap_file([]))
    code = f"""\
from kanalyze.cli.arguments import parser
from kanalyze.cli.output_checks import check_outputs
from kanalyze.capture.inputs import find_inputs
from kanalyze.capture.merge import MergedCaptures
arguments = parser().parse_args(["report", {empty_capture!r}])
check_outputs(arguments)
with MergedCaptures(find_inputs(arguments.captures)) as captures:
    assert not list(captures.batches())
"""
    modules = modules_after(code)
    assert not modules & ((SLOW | NEVER | HEAVY) - loaded_by_argparse() - loaded_by_cython())


def test_rows_in_a_file_need_neither_tables_for_people_nor_what_explains_failures(tmp_path):
    modules = imported("requests", CAPTURE, "-o", str(tmp_path / "x.csv"))
    own = own_of(modules)
    assert len(own) <= MAX_MODULES_OF_REQUESTS, sorted(own)
    assert not own & {
        *("kanalyze.render.table", "kanalyze.render.header"),
        "kanalyze.kafka.codec.interpreter",
    }


@pytest.mark.parametrize(
    "argv",
    [
        *(("requests", "-o", "{folder}/x.csv"), ("connections", "-o", "{folder}/x.jsonl")),
        *(("records", "--format", "jsonl"), ("anomalies", "--format", "csv")),
    ],
)
def test_where_there_are_no_packets_nothing_is_imported_that_reads_them(argv, tmp_path):
    (tmp_path / "empty.pcap").write_bytes(pcap_file([]))
    words = [word.format(folder=tmp_path) for word in argv]
    read = imported(*words, CAPTURE) - imported(*words, str(tmp_path / "empty.pcap"))
    stages = ("net.headers", "net.tcp.reassembly", "kafka.session.tracker", "runtime.stages")
    others = ("tables.requests.extract", "tables.requests.row_assembler")
    assert read >= {f"kanalyze.{name}" for name in (*stages, *others)}


@pytest.mark.parametrize(
    ("command", "standard"),
    [
        ("--help", STANDARD_OF_HELP),
        (f"requests {CAPTURE} -o {{folder}}/x.csv", STANDARD_OF_REQUESTS),
    ],
)
def test_these_modules_of_python_are_imported(command, standard, tmp_path):
    modules = imported(*command.format(folder=tmp_path).split())
    by_itself = modules_after(f"import {', '.join(standard)}")
    expected = by_itself | loaded_by_argparse() | loaded_by_cython()
    others = modules - expected - own_of(modules)
    # Cython has modules of its own: _cyutility, _cython_3_3_1, cython_runtime.
    assert {name for name in others if not name.lstrip("_").startswith("cy")} == set()


def test_these_modules_of_kanalyze_write_the_help():
    assert own_of(imported("--help")) == OWN_OF_HELP


def test_numpy_can_be_imported_although_pyarrow_was_loaded_without_it(tmp_path):
    arguments = ["requests", CAPTURE, "-o", str(tmp_path / "x.parquet")]
    code = f"""\
import sys
from kanalyze.cli.main import main
assert main({arguments!r}, owns_process=True) == 0
assert "numpy" not in sys.modules
import numpy
"""
    assert {"numpy", "pyarrow.parquet"} <= modules_after(code)


def test_in_a_process_that_others_use_pyarrow_has_numpy(tmp_path):
    code = f"""\
from kanalyze.cli.main import main
assert main(["requests", {CAPTURE!r}, "-o", {str(tmp_path / "x.parquet")!r}]) == 0
import pyarrow
assert len(pyarrow.array([1]).to_numpy()) == 1
"""
    assert "numpy" in modules_after(code)


DEPENDENCIES = ("numpy", "pyarrow", "duckdb", "rich", "lz4", "cramjam", "crc32c", "backports.zstd")
WITHOUT_DEPENDENCIES = """\
import sys
sys.modules.update(dict.fromkeys({!r}))
"""


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "argv",
    [
        ("requests", "--format", "csv", CAPTURE),
        ("connections", "--format", "csv", CAPTURE),
        ("protocol", "Fetch"),
        ("completion", "bash"),
    ],
)
def test_text_output_imports_no_dependency(argv):
    """In these processes, importing a dependency is an error that ends the command."""
    code = WITHOUT_DEPENDENCIES.format(DEPENDENCIES) + COMMAND
    assert "kanalyze.cli.arguments" in modules_after(code, *argv)


@pytest.mark.parametrize("argv", [("anomalies", "--format", "jsonl", CAPTURE), ("decode", CAPTURE)])
def test_commands_that_check_records_import_only_their_checksum(argv):
    others = tuple(name for name in DEPENDENCIES if name != "crc32c")
    assert "crc32c" in modules_after(WITHOUT_DEPENDENCIES.format(others) + COMMAND, *argv)


def test_the_report_imports_rich_only_for_colours():
    code = WITH_FEW_FINDINGS + COMMAND
    assert "rich.console" not in modules_after(code, "report", CAPTURE)
    assert "rich.console" in modules_after(code, "report", CAPTURE, FORCE_COLOR="1")


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        # decimal comes with DuckDB.
        (
            ("report", "--json", "-"),
            {"decimal", "kanalyze.tables.anomalies", "kanalyze.tables.connections"},
        ),
        (("requests", "--format", "csv"), set()),
    ],
)
def test_a_plain_kafka_capture_imports_no_rarely_needed_modules(argv, expected):
    code = (WITH_FEW_FINDINGS if argv[0] == "report" else "") + COMMAND
    assert modules_after(code, *argv, CAPTURE) & RARELY_NEEDED == expected


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("argv", "module"),
    [
        (("connections",), "kanalyze.tables.connections"),
        (("anomalies",), "kanalyze.tables.anomalies"),
        (("requests", "--api", "Fetch"), "kanalyze.kafka.v07.messages"),
        (("requests", "--slower-than", "1ms"), "decimal"),
        (("requests", "captures/ipv6.pcapng"), "kanalyze.capture.formats.pcapng"),
    ],
)
def test_rarely_needed_modules_are_imported_if_needed(argv, module):
    assert module in imported(*argv, CAPTURE)
