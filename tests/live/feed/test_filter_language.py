"""The grammar: what a condition reads as, with every parenthesis written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.errors import UsageError
from kanalyze.live.feed.filter_language import (
    Chain,
    Condition,
    Length,
    Network,
    Not,
    Ports,
    Protocol,
    parse_condition,
    parse_conditions,
)


def written(condition: Condition) -> str:
    """A condition with nothing left out."""
    match condition:
        case Protocol(name):
            return name
        case Network(side, network):
            return f"{side.value} {network}"
        case Ports(side, protocol, first, last):
            return f"{protocol or 'any'} {side.value} {first}-{last}"
        case Length(least, most):
            return f"{least}..{'' if most is None else most} bytes"
        case Not(inner):
            return f"not {written(inner)}"
        case Chain(first, rest):
            text = written(first)
            for joining, following in rest:
                text = f"({text} {joining} {written(following)})"
            return text


def read(text: str) -> str:
    # What is written for a side is long.
    return written(parse_condition(text)).replace("src or dst ", "")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("tcp", "tcp"),
        ("udp", "udp"),
        ("ip", "ip"),
        ("ip6", "ip6"),
        ("port 9092", "any 9092-9092"),
        ("tcp port 9092", "tcp 9092-9092"),
        ("udp src port 53", "udp src 53-53"),
        ("tcp dst portrange 9092-9094", "tcp dst 9092-9094"),
        ("src or dst port 1", "any 1-1"),
        ("dst or src port 1", "any 1-1"),
        ("src and dst port 1", "any src and dst 1-1"),
        ("dst and src host ::1", "src and dst ::1/128"),
        ("host 10.0.0.1", "10.0.0.1/32"),
        ("src 10.0.0.1", "src 10.0.0.1/32"),
        ("ip6 host ::1", "::1/128"),
        ("ip dst host 10.0.0.1", "dst 10.0.0.1/32"),
        ("net 10.1", "10.1.0.0/16"),
        ("ip src net 10.0.0.0/8", "src 10.0.0.0/8"),
        ("less 100", "0..100 bytes"),
        ("greater 100", "100.. bytes"),
    ],
)
def test_one_condition(text, meant):
    assert read(text) == meant


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        # `and` and `or` bind alike, from left to right.
        ("tcp or udp and ip", "((tcp or udp) and ip)"),
        ("tcp and udp or ip", "((tcp and udp) or ip)"),
        ("tcp or (udp and ip)", "(tcp or (udp and ip))"),
        # `not` binds tighter.
        ("not tcp or udp", "(not tcp or udp)"),
        ("not (tcp or udp)", "not (tcp or udp)"),
        ("not not tcp", "not not tcp"),
        # Signs are words, wherever they stand.
        ("!tcp&&udp||ip", "((not tcp and udp) or ip)"),
        ("tcp and(udp)", "(tcp and udp)"),
        ("  ((tcp))\n", "tcp"),
    ],
)
def test_what_is_joined(text, meant):
    assert read(text) == meant


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("port 1 or 2", "(any 1-1 or any 2-2)"),
        ("tcp src port 1 or 2 or not 3", "((tcp src 1-1 or tcp src 2-2) or not tcp src 3-3)"),
        ("not port 1 and 2", "(not any 1-1 and any 2-2)"),
        ("port not 1", "not any 1-1"),
        ("port (1 or 2) and 3", "((any 1-1 or any 2-2) and any 3-3)"),
        ("port 1 or (2 and not 3)", "(any 1-1 or (any 2-2 and not any 3-3))"),
        ("host 10.0.0.1 or fd00::1", "(10.0.0.1/32 or fd00::1/128)"),
        ("host 10.0.0.1 and port 1 or 2", "((10.0.0.1/32 and any 1-1) or any 2-2)"),
        ("src net 10 and dst 10.0.0.1", "(src 10.0.0.0/8 and dst 10.0.0.1/32)"),
        ("port 1 or not (tcp)", "(any 1-1 or not tcp)"),
    ],
)
def test_what_was_said_holds_for_the_values_that_follow(text, meant):
    assert read(text) == meant


NOT_UNDERSTOOD = "is not understood; of tcpdump's language these are: host, net, port"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "something is missing at its end"),
        ("   ", "something is missing at its end"),
        ("port", "something is missing at its end"),
        ("tcp and", "something is missing at its end"),
        ("(tcp", "something is missing at its end"),
        ("port (1", "something is missing at its end"),
        ("less", "something is missing at its end"),
        ("()", "')' cannot stand where it does"),
        ("tcp)", "')' cannot stand where it does"),
        ("and tcp", "'and' cannot stand where it does"),
        ("tcp udp", "'udp' cannot stand where it does"),
        ("port (1 or tcp)", "'tcp' is not a number from 0 to 65535"),
        ("src or src port 1", "'or' is not an address (names are not looked up)"),
        ("9092", "'9092': nothing before it says what it is"),
        ("not (10.0.0.1)", "'10.0.0.1': nothing before it says what it is"),
        ("tcp or 9092", "'9092': nothing before it says what it is"),
        ("(port 1) or 2", "'2': nothing before it says what it is"),
        ("less 100 or 200", "'200': nothing before it says what it is"),
        ("port 1 2", "'2': nothing before it says what it is"),
        ("vlan 3", f"'vlan' {NOT_UNDERSTOOD}"),
        ("tcp[13] & 2 != 0", f"'tcp[13]' {NOT_UNDERSTOOD}"),
        ("port 9092 and ether host 1", f"'ether' {NOT_UNDERSTOOD}"),
        ("ip proto 6", f"'proto' {NOT_UNDERSTOOD}"),
        ("TCP", f"'TCP' {NOT_UNDERSTOOD}"),
        ("tcp & udp", f"'&' {NOT_UNDERSTOOD}"),
        ("host broker", "'broker' is not an address (names are not looked up)"),
        ("port http", "'http' is not a number from 0 to 65535"),
        ("port 65536", "'65536' is not a number from 0 to 65535"),
        ("net 10.0.0.1/8", "'10.0.0.1/8' is not a network, or has bits set behind its mask"),
        ("tcp host 10.0.0.1", "tcp has no host"),
        ("udp src 10.0.0.1", "udp has no host"),
        ("ip6 port 9092", "ip6 has no port"),
        ("ip portrange 1-2", "ip has no portrange"),
        ("ip6 host 10.0.0.1", "ip6 has no address '10.0.0.1'"),
        ("ip net fd00::/8", "ip has no address 'fd00::/8'"),
    ],
)
def test_what_is_refused_names_the_word(text, told):
    with pytest.raises(UsageError) as caught:
        parse_condition(text)
    assert str(caught.value).startswith(f"filter {text!a}: {told}")


def test_what_is_too_deep_or_too_long_is_refused():
    assert read("(" * 64 + "tcp" + ")" * 64) == "tcp"
    for text in (
        "(" * 65,
        "!" * 65,
        "not (" * 33,
        "port " + "(" * 65,
        "port 1 or " + "!" * 65 + "1",
    ):
        with pytest.raises(UsageError, match=r"^filter .{1,80}: more than 64 parentheses and nots"):
            parse_condition(text)
    with pytest.raises(UsageError, match=r"^filter .{1,80}: longer than 65536 characters$"):
        parse_condition("port 1" + " or 2" * 20_000)


def test_a_long_one_is_not_a_deep_one():
    text = "port 1" + " or 2 and 3" * 5_000
    assert len(parse_condition(text).rest) == 10_000


def test_conditions_that_hold_together_are_read_each_for_itself():
    assert written(parse_conditions(["tcp or udp", "ip"])) == "((tcp or udp) and ip)"
    assert written(parse_conditions(["tcp"])) == "tcp"
    with pytest.raises(UsageError, match=r"^filter 'tcp\) or \(udp': '\)' cannot stand"):
        parse_conditions(["tcp) or (udp", "ip"])


WORDS = (
    *("tcp", "udp", "ip", "ip6", "src", "dst", "host", "net", "port", "portrange", "less"),
    *("greater", "and", "or", "not", "(", ")", "!", "&&", "||", "1", "1-2", "10", "10.0.0.1"),
    *("fd00::/8", "::1", "vlan", "tcp[0]", "-", "\n", "\0"),
)


@given(st.one_of(st.text(), st.lists(st.sampled_from(WORDS)).map(" ".join)))
def test_any_text_is_a_condition_or_is_refused_in_one_line(text):
    read_as = meaning_or_refusal(text)
    assert read_as.isprintable()
    assert len(read_as) < 1000 + 20 * len(text)


def meaning_or_refusal(text: str) -> str:
    try:
        return written(parse_condition(text))
    except UsageError as error:
        return str(error)
