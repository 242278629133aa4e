"""A TLS stream by its first bytes."""

from __future__ import annotations

from kanalyze.kafka.session.tls import (
    is_alert,
    is_client_hello,
    records_fit,
)

RECORDS = b"".join(b"\x17\x03\x03\x00\x40" + bytes([n]) * 64 for n in range(5))


def test_an_alert_and_a_client_hello_are_distinguished() -> None:
    hello, alert = bytes.fromhex("16030100c801"), bytes.fromhex("15030300020246")
    assert (is_client_hello(hello), is_alert(hello)) == (True, False)
    assert (is_client_hello(alert), is_alert(alert)) == (False, True)
    assert not is_client_hello(bytes.fromhex("160303007a02"))  # a ServerHello


def test_records_fill_the_available_bytes() -> None:
    assert records_fit(RECORDS)
    assert records_fit(RECORDS[:100])
    assert not records_fit(RECORDS[:69] + b"\0\0\0\0\0")
    assert not records_fit(b"\x17\x03\x03")
