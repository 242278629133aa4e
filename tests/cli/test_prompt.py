"""``kanalyze sql`` without a query, on a terminal: what is typed, and what is seen."""

from __future__ import annotations

import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kanalyze.cli.main import main
from tests.support.captures import path
from tests.support.pseudo_terminal import PseudoTerminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

READY = "kanalyze> "


@contextmanager
def asked(state: Path, *words: str) -> Iterator[PseudoTerminal]:
    terminal = PseudoTerminal(
        *("-m", "kanalyze", "sql", *words, str(path("basics"))),
        XDG_STATE_HOME=str(state),
        INPUTRC="/dev/null",
    )
    with terminal:
        terminal.see(READY)
        yield terminal


def answer(terminal: PseudoTerminal, line: bytes, *seen: str) -> None:
    terminal.press(line + b"\r")
    for text in seen:
        terminal.see(text)
    terminal.wait_until(lambda: terminal.output.endswith(READY.encode()), "the next prompt")


def end(terminal: PseudoTerminal) -> None:
    terminal.press(b".quit\r")
    assert terminal.end() == 0


def test_queries_are_answered_and_errors_are_a_line(tmp_path: Path) -> None:
    with asked(tmp_path) as terminal:
        answer(terminal, b"SELECT count(*) + 41000 AS n FROM requests WHERE false;", "41000")
        answer(terminal, b"SELECT 7 * 191 AS\r one_value\r;", "one_value", "1337")
        answer(terminal, b"SELECT nothing FROM requests;", "kanalyze: ", "nothing")
        errors = [line for line in terminal.output.splitlines() if line.startswith(b"kanalyze: ")]
        assert len(errors) == 1
        # The first query about records reads the captures again.
        answer(terminal, b"SELECT count(*) > 0 AS has_records FROM records;", "true")
        answer(terminal, b".nothing", "kanalyze: no command '.nothing': .help lists them")
        answer(terminal, b".schema nothing", "kanalyze: no table 'nothing': .tables lists them")
        answer(terminal, b".tables", "replication", "one TCP connection, Kafka or not")
        answer(terminal, b".schema lag", "lag: ")
        assert b"requests: " not in terminal.output
        end(terminal)


def test_tab_completes_names_of_tables_and_columns(tmp_path: Path) -> None:
    with asked(tmp_path) as terminal:
        terminal.press(b"SELECT count(*) FROM capture_q\t")
        terminal.see("capture_quality")
        answer(terminal, b";", "1")
        terminal.press(b"SELECT requests.correl\t")
        terminal.see("requests.correlation_id")
        answer(terminal, b" < 0 AS x FROM requests LIMIT 1;", "false")
        terminal.press(b".sche\t")
        terminal.see(".schema")
        answer(terminal, b" groups", "groups: ")
        end(terminal)


def test_lines_are_remembered_for_their_owner_alone(tmp_path: Path) -> None:
    with asked(tmp_path) as terminal:
        answer(terminal, b"SELECT 6 * 7000 AS remembered;", "42000")
        end(terminal)
    history = tmp_path / "kanalyze" / "sql_history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert stat.S_IMODE(history.parent.stat().st_mode) == 0o700
    with asked(tmp_path) as terminal:
        terminal.press(b"\x1b[A\x1b[A")  # above .quit
        terminal.see("remembered;")
        answer(terminal, b"", "42000")
        terminal.press(b"\x04")
        assert terminal.end() == 0


def test_a_folder_that_cannot_be_made_is_said_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "kanalyze").write_text("a file")
    with asked(tmp_path) as terminal:
        assert b"lines are not remembered: " in terminal.output
        end(terminal)


def test_ctrl_c_drops_a_query_and_not_the_tables(tmp_path: Path) -> None:
    with asked(tmp_path) as terminal:
        terminal.press(b"SELECT this is no query\r")
        terminal.see("...> ")
        terminal.wait_until_it_sleeps()
        terminal.press(b"\x03")
        terminal.see(READY)
        terminal.press(b"SELECT sum(hash(a.range, b.range)) FROM range(10**6) a, range(10**6) b;\r")
        terminal.see("b;")
        terminal.press(b"\x03")
        terminal.see("kanalyze: interrupted")
        answer(terminal, b"SELECT 1233 + 1 AS n;", "1234")
        end(terminal)


def test_answers_have_the_format_that_is_asked_for(tmp_path: Path) -> None:
    with asked(tmp_path, "--format", "jsonl") as terminal:
        answer(terminal, b"SELECT 2 AS two;", '{"two":2}')
        end(terminal)


def test_without_a_terminal_a_query_must_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", str(path("basics"))]) == 2
    assert "is a file, not a query" in capsys.readouterr().err


def test_options_of_one_query_need_one(tmp_path: Path) -> None:
    words = ("-m", "kanalyze", "sql", "-o", str(tmp_path / "x.csv"), str(path("basics")))
    with PseudoTerminal(*words) as terminal:
        assert terminal.end() == 2
        assert b"kanalyze: --output and --param need a query" in terminal.output
