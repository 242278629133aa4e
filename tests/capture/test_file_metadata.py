"""Metadata of captures: its bounds, and the blocks of pcapng that have it."""

from __future__ import annotations

import io
import struct

import pytest

from kanalyze.capture.file_metadata import (
    MAX_COMMENTS,
    MAX_NAMES_OF_ONE,
    MAX_SECRETS_BYTES,
    MAX_TEXT_BYTES,
    MAX_TEXTS_BYTES,
    CaptureInterface,
    Comment,
    DecryptionSecrets,
    FileMetadata,
    readable,
)
from kanalyze.capture.reader import open_capture
from tests.support.packets import (
    Blocks,
    Packet,
    names_block,
    secrets_block,
    section_with_options,
)


def test_comments_are_bounded_in_number():
    description = FileMetadata()
    for number in range(MAX_COMMENTS + 5):
        assert description.takes_comments is (number < MAX_COMMENTS)
        description.add_comment("x", "packet", number, "c")
    assert len(description.comments) == MAX_COMMENTS


def test_the_size_of_all_texts_is_bounded():
    description = FileMetadata()
    for number in range(3000):
        text = f"{number}".ljust(MAX_TEXT_BYTES)
        description.add_comment("x", "packet", number, text)
        description.add_interface(CaptureInterface("x", 1, 0, name=text))
        description.add_names(f"10.0.{number // 256}.{number % 256}", (text,))
    kept = len(description.comments) + len(description.interfaces) + len(description.names)
    assert kept * MAX_TEXT_BYTES <= MAX_TEXTS_BYTES < (kept + 50) * MAX_TEXT_BYTES


def test_the_number_of_entries_without_text_is_bounded_too():
    description = FileMetadata()
    for number in range(70_000):
        description.add_interface(CaptureInterface("x", 1, number))
    assert len(description.interfaces) == 65_536


def test_the_names_of_one_address_are_bounded():
    description = FileMetadata()
    for number in range(200):
        description.add_names("10.0.0.1", (f"name {number}",))
    assert len(description.names["10.0.0.1"]) == MAX_NAMES_OF_ONE
    description.add_names("10.0.0.1", ("name 1",))
    assert len(description.names["10.0.0.1"]) == MAX_NAMES_OF_ONE


def test_secrets_are_bounded_together_and_repeated_ones_kept_once():
    description = FileMetadata()
    block = memoryview(bytes(1 << 20))
    for number in range(40):
        description.add_secrets(number, block)
        description.add_secrets(0, block)
    size = sum(len(each.data) for each in description.decryption_secrets)
    assert MAX_SECRETS_BYTES - (2 << 20) < size <= MAX_SECRETS_BYTES
    description.add_secrets(1, memoryview(bytes(MAX_SECRETS_BYTES)))
    assert sum(len(each.data) for each in description.decryption_secrets) == size


def test_text_is_cut_at_a_limit_and_loses_its_padding():
    assert readable(b"name\0\0") == "name"
    assert len(readable(b"a" * 100_000)) == MAX_TEXT_BYTES
    assert readable(memoryview("ü".encode() * 5)) == "üüüüü"


ORDERS = pytest.mark.parametrize("order", ["<", ">"])
KEYS = b"CLIENT_RANDOM 0123 4567\n"


def read(data: bytes, buffer_bytes: int = 4096):
    with open_capture(io.BytesIO(data), name="x", buffer_bytes=buffer_bytes) as reader:
        count = sum(len(batch) for batch in reader.batches())
    return count, reader


@ORDERS
@pytest.mark.parametrize("buffer_bytes", [64, 4096])
def test_interfaces_are_described_by_their_options(order, buffer_bytes):
    b = Blocks(order)
    options = b.option(2, b"eth0") + b.option(3, "Büro".encode()) + b.option(11, b"\0tcp port 9092")
    options += b.option(12, b"Linux 6.1") + b.option(15, b"NIC") + b.option(9, b"\x09")
    data = b.section() + b.interface(1, 96, options)
    data += b.interface(113, options=b.option(11, b"\1\6\0\0\0"))
    data += b.section() + b.interface(276)
    _, reader = read(data, buffer_bytes)
    assert reader.description.interfaces == [
        CaptureInterface("x", 1, 96, "eth0", "Büro", "NIC", "Linux 6.1", "tcp port 9092"),
        CaptureInterface("x", 113, 0),
        CaptureInterface("x", 276, 0),
    ]


@ORDERS
def test_names_of_addresses_are_collected_from_all_blocks(order):
    b = Blocks(order)
    data = b.section() + b.interface()
    data += names_block(b, [("10.0.0.2", ["broker-1", "kafka"]), ("2001:DB8::1", ["six"])])
    data += names_block(b, [("10.0.0.2", ["broker-1", "other"]), ("10.0.0.9", [""])])
    count, reader = read(data + b.enhanced(Packet(b"x"), 1))
    assert count == 1
    assert reader.description.names == {
        "10.0.0.2": ("broker-1", "kafka", "other"),
        "2001:db8::1": ("six",),
    }


def test_hardware_names_and_cut_records_are_ignored():
    b = Blocks()
    body = b.option(3, b"\2\0\0\0\0\1printer\0") + b.option(1, b"\x0a\0\0\1")
    body += b.option(1, b"\x0a\0\0\2two\0") + struct.pack("<HH", 1, 500) + b"\x0a\0\0\3three\0"
    _, reader = read(b.section() + b.block(4, body))
    assert reader.description.names == {"10.0.0.2": ("two",)}
    assert reader.anomalies == []


@ORDERS
def test_comments_are_kept_with_their_subject(order):
    b = Blocks(order)
    comment = b.option(1, b"here")
    data = section_with_options(b, comment + b.option(3, b"Linux")) + b.interface()
    data += b.interface(options=comment) + b.statistics(1, comment)
    data += b.block(4, b.option(1, b"\x0a\0\0\2two\0") + b.option(0, b"") + comment)
    data += b.block(10, b.pack("II", 1, 3) + b"abc\0" + comment)
    _, reader = read(data)
    assert reader.description.comments == [
        Comment("x", "section", None, "here"),
        Comment("x", "interface", 1, "here"),
        Comment("x", "statistics", 1, "here"),
        Comment("x", "names", None, "here"),
        Comment("x", "secrets", None, "here"),
    ]


@ORDERS
def test_secrets_are_kept_and_shown_nowhere(order):
    b = Blocks(order)
    data = (
        b.section() + secrets_block(b, KEYS) + b.interface() + secrets_block(b, b"wg", 0x57474B4C)
    )
    _, reader = read(data)
    assert reader.description.decryption_secrets == [
        DecryptionSecrets(0x544C534B, KEYS),
        DecryptionSecrets(0x57474B4C, b"wg"),
    ]
    for shown in (
        repr(reader.description.decryption_secrets),
        str(reader.description.decryption_secrets[0]),
    ):
        assert "CLIENT_RANDOM" not in shown
        assert "0123" not in shown


def test_secrets_are_read_before_the_packets_that_need_them():
    b = Blocks()
    data = b.section() + secrets_block(b, KEYS) + b.interface() + b.enhanced(Packet(b"x"), 1)
    with open_capture(io.BytesIO(data), buffer_bytes=64) as reader:
        next(reader.batches())
        assert len(reader.description.decryption_secrets) == 1


def test_cut_secrets_are_left_out():
    b = Blocks()
    data = b.section() + b.block(10, b"\0\0\0\0") + b.block(10, b.pack("II", 1, 9) + b"12345678")
    _, reader = read(data)
    assert reader.description.decryption_secrets == []
    assert reader.anomalies == []


def test_file_metadata_stays_when_the_buffer_is_used_again():
    b = Blocks()
    data = section_with_options(b, b.option(1, b"first")) + secrets_block(b, KEYS)
    data += names_block(b, [("10.0.0.2", ["broker"])]) + b.interface(options=b.option(2, b"eth0"))
    data += b.enhanced(Packet(b"?" * 90), 1) * 50
    _, reader = read(data, 64)
    assert reader.description.comments[0].text == "first"
    assert reader.description.decryption_secrets[0].data == KEYS
    assert reader.description.names == {"10.0.0.2": ("broker",)}
    assert reader.description.interfaces[0].name == "eth0"


def test_text_that_is_not_utf_8_is_escaped():
    b = Blocks()
    _, reader = read(b.section() + b.interface(options=b.option(2, b"eth\xff\x1b[0m\0\0")))
    assert reader.description.interfaces[0].name == "eth\\xff\x1b[0m"


def test_a_pcap_file_has_no_names_comments_or_secrets():
    data = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 96, 113)
    _, reader = read(data)
    assert reader.description.interfaces == [CaptureInterface("x", 113, 96)]
    assert (
        reader.description.names,
        reader.description.comments,
        reader.description.decryption_secrets,
    ) == ({}, [], [])
