from __future__ import annotations

import pytest

from kanalyze.capture.live.kernel_filter import (
    compile_expression,
    has_libpcap,
    load_libpcap,
    program_of,
)
from kanalyze.errors import CaptureError, UsageError


def test_an_expression_is_compiled_for_a_link_type() -> None:
    assert compile_expression("", 1) == [(0x06, 0, 0, 0x40000)]
    # IPv4, with its protocol field, comes after the header of Ethernet, or first.
    assert (0x30, 0, 0, 23) in compile_expression("ip proto 6", 1)
    assert (0x30, 0, 0, 9) in compile_expression("ip proto 6", 12)


def test_a_program_has_the_compiled_instructions() -> None:
    instructions = compile_expression("tcp port 9092", 1)
    program = program_of(instructions)
    assert program.length == len(instructions)
    found = program.instructions[: program.length]
    assert [(one.code, one.if_true, one.if_false, one.constant) for one in found] == instructions


@pytest.mark.parametrize(
    "text",
    [
        "tcp prt 1",
        "nonsense at all",
        "port",
        "tcp\0",
        "port 1\n22",
        "host broker.invalid",
        "\ud800",
    ],
)
def test_a_wrong_expression_is_an_error_of_one_line(text: str) -> None:
    with pytest.raises(UsageError, match=r"^filter '[^\n]+$") as caught:
        compile_expression(text, 1)
    assert str(caught.value).startswith(f"filter {text!a}: ")


def test_an_expression_is_compiled_without_the_interface_too() -> None:
    assert compile_expression("tcp", 1, "no-such-one") == compile_expression("tcp", 1)


def test_a_missing_libpcap_is_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert has_libpcap()

    def refuse(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr("ctypes.CDLL", refuse)
    load_libpcap.cache_clear()
    try:
        assert not has_libpcap()
        with pytest.raises(CaptureError, match=r"^a filter needs libpcap, which is not installed$"):
            compile_expression("tcp", 1)
    finally:
        load_libpcap.cache_clear()
