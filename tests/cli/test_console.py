from __future__ import annotations

import os

import pytest
from rich.console import Console

from kanalyze.cli.console import is_plain, plain_width, show_lines
from kanalyze.render.lines import Line

VARIABLES = ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE")


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("columns", [None, "132", "wide"])
def test_the_width_is_that_of_a_rich_console(monkeypatch, columns):
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    assert plain_width() == Console().width


def test_a_width_of_0_columns_is_ignored(monkeypatch):
    monkeypatch.setenv("COLUMNS", "0")
    assert plain_width() > 0


def test_standard_error_gives_the_width_if_it_alone_is_a_terminal(monkeypatch):
    def size(descriptor: int) -> os.terminal_size:
        if descriptor != 2:
            raise OSError(25, "not a terminal")
        return os.terminal_size((117, 40))

    monkeypatch.setattr(os, "get_terminal_size", size)
    assert plain_width() == 117


def test_output_to_a_file_or_a_pipe_is_plain(monkeypatch):
    assert is_plain()
    assert not Console().is_terminal


@pytest.mark.parametrize("name", ["FORCE_COLOR", "TTY_COMPATIBLE"])
def test_environment_variables_can_force_colours(monkeypatch, name):
    monkeypatch.setenv(name, "1")
    assert not is_plain()
    assert Console().is_terminal


def test_lines_are_made_for_the_width_and_have_colours_only_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "132")
    show_lines(lambda width: [Line(f"width {width}", "bold")])
    assert capsys.readouterr().out == "width 132\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    show_lines(lambda width: [Line(f"width {width}", "bold")])
    assert capsys.readouterr().out == "\x1b[1mwidth 132\x1b[0m\n"
