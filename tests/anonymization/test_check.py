"""What is anonymized says the same as before but for names, or a line says what differs."""

from __future__ import annotations

import struct
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kanalyze
from kanalyze.anonymization.anonymize import Anonymization
from kanalyze.anonymization.check import OutputCheck
from kanalyze.cli.main import main
from kanalyze.export.files import OutputFile
from tests.support import kafka as k
from tests.support.anonymous import KEY, anonymous
from tests.support.captures import NAMES, often, path
from tests.support.cases import for_each
from tests.support.disorder.capture_files import read_packets
from tests.support.packets import ACK, SYN, Packet, pcap_file, segment, timed

if TYPE_CHECKING:
    from collections.abc import Callable

TLS = path("basics").parent / "tls"
NAMES_OF_BYTES = {
    "rocket": "\N{ROCKET}-billing".encode(),
    "joined": "\N{MAN}\u200d\N{WOMAN}\u200d\N{GIRL} app".encode(),
    "unassigned": "app \U000e0fff".encode(),
    "private": "\ue000\ue001\ue002\ue003".encode(),
    "combining": "cafe\u0301-app".encode(),
    "right to left": "\u202eppa-gnillib".encode(),
    "separators": "a\u2028b\u00a0c\u3000d".encode(),
    "C1 control": "a\x85b\x9fc".encode(),
    "NUL": b"billing\0app",
    "controls": b"\x01\x02billing\x7f",
    "surrogate": b"\xed\xa0\x80\xed\xb0\x80 app",
    "Latin-1": "größe".encode("latin-1"),
    "not UTF-8": b"\xff\xfe\xc3(app",
    "all bytes": bytes(range(256)),
    "escape": rb"domain\x80user",
    "empty": b"",
    "longest": b"x" * 1024,
    "long, four bytes each": "\N{GRINNING FACE}".encode() * 450,
}


def text(name: bytes) -> bytes:
    return struct.pack(">h", len(name)) + name


def request(api_key: int, version: int, number: int, client_id: bytes, body: bytes) -> bytes:
    frame = struct.pack(">hhi", api_key, version, number) + text(client_id) + body
    return struct.pack(">i", len(frame)) + frame


def turns(name: bytes) -> list[tuple[bytes, bytes]]:
    """Requests with a name in every place for one, and their answers."""
    ask = partial(request, client_id=name)
    token = b"\0" + name.replace(b"\0", b"") + b"\0a password"
    records = k.record_batch()
    produce = text(b"") + struct.pack(">hii", 1, 1000, 1) + text(name)
    produce += struct.pack(">iii", 1, 0, len(records)) + records
    produced = struct.pack(">i", 1) + text(name) + struct.pack(">iihqqi", 1, 0, 6, 42, -1, 0)
    member = text(name) + struct.pack(">i", 1) + text(name)
    return [
        (
            ask(17, 1, 1, body=text(b"PLAIN")),
            k.response(1, struct.pack(">hi", 0, 1) + text(b"PLAIN")),
        ),
        (
            ask(36, 0, 2, body=struct.pack(">i", len(token)) + token),
            k.response(2, struct.pack(">hhi", 0, -1, 0)),
        ),
        (ask(0, 3, 3, body=produce), k.response(3, produced)),
        *(
            (ask(12, 0, number, body=member), k.heartbeat_answer(number, 27))
            for number in (4, 5, 6)
        ),
    ]


def capture_of(name: bytes, *, skipped: int = 0) -> bytes:
    """A connection with a name in it, without its first ``skipped`` requests and answers."""
    packets = []
    sequence = [1, 1]
    if not skipped:
        packets += [segment(seq=0, flags=SYN), segment(to_broker=False, ack=1, flags=SYN | ACK)]
    for number, turn in enumerate(turns(name)):
        for side, payload in enumerate(turn):
            for begin in range(0, len(payload), 1400):
                part = payload[begin : begin + 1400]
                own, other = sequence[side], sequence[1 - side]
                if number >= skipped:
                    packets.append(segment(to_broker=not side, seq=own, ack=other, payload=part))
                sequence[side] += len(part)
    return pcap_file(timed(packets, 1_000_000))


@pytest.mark.parametrize("skipped", [0, 3])
@for_each("label", NAMES_OF_BYTES)
def test_any_name_is_read_and_its_stand_in_too(tmp_path: Path, label: str, skipped: int) -> None:
    name = NAMES_OF_BYTES[label]
    before = tmp_path / f"{label}.pcap"
    before.write_bytes(capture_of(name, skipped=skipped))
    made = Anonymization([before], KEY)
    after = tmp_path / f"{label}.pcapng"
    made.run(partial(OutputFile, str(after), replaces_captures=True))
    assert made.check(str(after)).differences() == ()
    if len(name) >= 8:
        assert name not in after.read_bytes()
    found = list(kanalyze.requests(after))
    is_read = set(name).isdisjoint((*range(32), 127))
    assert [row.api_key for row in found] == ([17, 36, 0, 12, 12, 12][skipped:] if is_read else [])


def test_client_ids_with_an_emoji_are_recognized_in_the_middle_of_connections() -> None:
    """The version of Unicode that Python knows does not matter, nor what is printable in it."""
    for label in ("rocket", "joined", "unassigned", "private", "right to left", "separators"):
        # One request without its answer: only its client id tells that it is no accident.
        packets = [Packet(segment(seq=1, ack=1, payload=turns(NAMES_OF_BYTES[label])[2][0]))]
        (row,) = kanalyze.requests(BytesIO(pcap_file(packets)))
        assert row.api_name == "Produce", label


@pytest.mark.few(6)
@pytest.mark.parametrize("strips", [False, True])
@pytest.mark.parametrize("name", often(NAMES, ("basics", "errors", "snaplen", "tls", "foreign")))
def test_nothing_but_names_differs_in_any_capture(
    tmp_path: Path, name: str, *, strips: bool
) -> None:
    made = Anonymization([path(name)], KEY, strips_records=strips)
    target = str(tmp_path / "out.pcapng")
    made.run(partial(OutputFile, target))
    check = made.check(target)
    assert check.differences() == ()
    done, total = check.progress
    assert done == total == path(name).stat().st_size + Path(target).stat().st_size


def test_several_captures_are_compared_with_the_one_that_they_became(tmp_path: Path) -> None:
    for each in ("any", "ipv6"):
        (tmp_path / f"{each}.capture").write_bytes(path(each).read_bytes())
    target = tmp_path / "out.pcapng"
    # A folder is not looked at again: what was written may be in it.
    assert kanalyze.anonymize(tmp_path, output=target).differences == ()


ANSWER, OTHER_ANSWER = struct.pack(">ih", 5, 27), struct.pack(">ih", 5, 25)
HEADER_BYTES = 54


def compared(folder: Path, change: Callable[[bytes], bytes | None]) -> tuple[str, ...]:
    """Compare a capture with what was made of it, and then changed packet by packet."""
    before, changed = folder / "before.pcap", folder / "changed.pcap"
    before.write_bytes(capture_of(b"billing-app"))
    packets = read_packets(anonymous(folder, before).read_bytes())
    made = ((change(packet.data), packet.time_ns) for packet in packets)
    changed.write_bytes(pcap_file(Packet(data, at) for data, at in made if data is not None))
    return OutputCheck([before], str(changed)).differences()


def test_each_table_that_differs_has_a_line(tmp_path: Path) -> None:
    assert compared(tmp_path, lambda data: data) == ()
    (row, *_) = kanalyze.requests(tmp_path / "before.pcap")
    (renamed, *_) = kanalyze.requests(tmp_path / "changed.pcap")
    (line,) = compared(tmp_path, lambda data: data.replace(ANSWER, OTHER_ANSWER))
    assert line == (
        f"requests: 1 only in the original ({row.connection}), "
        f"1 only in the anonymous capture ({renamed.connection})"
    )
    lost = compared(tmp_path, lambda data: None if ANSWER in data else data)
    assert [line.split(":")[0] for line in lost] == ["requests", "connections", "anomalies"]
    blank = compared(tmp_path, lambda data: data[:HEADER_BYTES] + bytes(len(data[HEADER_BYTES:])))
    assert blank[0] == f"requests: 6 only in the original ({row.connection})"
    assert blank[1].startswith("connections: 1 only in the original")
    for other in ("any", "basics"):
        unlike = OutputCheck([path(other)], str(tmp_path / "changed.pcap")).differences()
        assert len(unlike) >= 2


# -- the command ----------------------------------------------------------------------------------


def http_server(folder: Path) -> Path:
    """A client of Kafka whose server answers in HTTP: kanalyze reads bytes that become blank."""
    ask = k.api_versions(1)
    answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
    packets = [
        segment(seq=0, flags=SYN),
        segment(to_broker=False, ack=1, flags=SYN | ACK),
        segment(seq=1, ack=1, payload=ask),
        segment(to_broker=False, seq=1, ack=1 + len(ask), payload=answer),
    ]
    capture = folder / "http.pcap"
    capture.write_bytes(pcap_file(timed(packets)))
    return capture


def test_the_command_says_what_differs_and_exits_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.pcapng"
    assert main(["anonymize", "-o", str(target), str(http_server(tmp_path))]) == 1
    found = capsys.readouterr()
    assert found.out.startswith(f"{target}: 4 packets, 1 message on 1 Kafka connection")
    lines = found.err.splitlines()
    assert [line.split(": ")[3] for line in lines] == ["requests", "connections", "anomalies"]
    assert all(line.startswith(f"kanalyze: {target}: more than names differs: ") for line in lines)
    assert target.exists()
    assert main(["anonymize", "--force", "-o", str(target), str(path("any"))]) == 0
    assert capsys.readouterr().err == ""


def test_what_goes_to_a_pipe_is_not_compared(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["anonymize", "-o", "-", str(path("any"))]) == 0
    found = capfdbinary.readouterr()
    assert found.err == b"kanalyze: -: not compared with the captures: it is no file\n"
    assert found.out


# -- TLS ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tls13-kcat-embedded", "tls12-etm-sha256-embedded"])
def test_tls_stays_encrypted_although_its_secrets_are_in_the_capture(
    tmp_path: Path, name: str
) -> None:
    before = TLS / f"{name}.pcapng"
    assert list(kanalyze.requests(before))
    target = tmp_path / "out.pcapng"
    done = kanalyze.anonymize(before, output=target)
    assert (done.messages, done.differences) == (0, ())
    assert list(kanalyze.requests(target)) == []


def test_a_broker_that_wants_tls_is_still_seen(tmp_path: Path) -> None:
    before = path("fault-plaintext-to-tls")
    target = tmp_path / "out.pcapng"
    assert kanalyze.anonymize(before, output=target).differences == ()
    alerts = [[row.tls_alerts for row in kanalyze.connections(each)] for each in (before, target)]
    assert alerts[0] == alerts[1]
    assert any(alerts[0])
