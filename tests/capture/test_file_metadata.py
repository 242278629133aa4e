from __future__ import annotations

from kanalyze.capture.file_metadata import (
    MAX_COMMENTS,
    MAX_NAMES_OF_ONE,
    MAX_SECRETS_BYTES,
    MAX_TEXT_BYTES,
    MAX_TEXTS_BYTES,
    CaptureInterface,
    FileMetadata,
    readable,
)


def test_comments_are_bounded_in_number():
    description = FileMetadata()
    for number in range(MAX_COMMENTS + 5):
        assert description.takes_comments is (number < MAX_COMMENTS)
        description.add_comment("x", "packet", number, "c")
    assert len(description.comments) == MAX_COMMENTS
    assert description.omitted == 5


def test_the_size_of_all_texts_is_bounded():
    description = FileMetadata()
    for number in range(3000):
        text = f"{number}".ljust(MAX_TEXT_BYTES)
        description.add_comment("x", "packet", number, text)
        description.add_interface(CaptureInterface("x", 1, 0, name=text))
        description.add_names(f"10.0.{number // 256}.{number % 256}", (text,))
    kept = len(description.comments) + len(description.interfaces) + len(description.names)
    assert kept * MAX_TEXT_BYTES <= MAX_TEXTS_BYTES < (kept + 50) * MAX_TEXT_BYTES
    assert description.omitted == 9000 - kept


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
    assert description.omitted == 40 - len(description.decryption_secrets)
    description.add_secrets(1, memoryview(bytes(MAX_SECRETS_BYTES)))
    assert sum(len(each.data) for each in description.decryption_secrets) == size


def test_text_is_cut_at_a_limit_and_loses_its_padding():
    assert readable(b"name\0\0") == "name"
    assert len(readable(b"a" * 100_000)) == MAX_TEXT_BYTES
    assert readable(memoryview("ü".encode() * 5)) == "üüüüü"
