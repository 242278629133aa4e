#!/usr/bin/env python3
"""Record TLS that no Kafka broker speaks: OpenSSL on both ends, and a few requests of Kafka inside.

    stand_in_tls.py [NAME ...]     write them, or all, beside the other captures of TLS

Each is recorded in a network namespace of its own, whose server is this program again.
Needs root, openssl 3, tcpdump and tshark.
"""

import datetime
import json
import os
import platform
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lab.errors import RecorderError
from lab.namespace import Namespace
from lab.processes import end_group, need, need_root, run
from lab.provenance import write as write_provenance
from lab.sniffer import Recording, Sniffer, Taken, version
from lab.tlsfiles import write_reading

FOLDER = Path(__file__).resolve().parents[2] / "captures" / "tls"
HOST, PORT = "127.0.0.1", 9094
SECONDS = 20.0
REQUESTS = 3
"""Of each connection: ApiVersions, version 0."""
API_VERSIONS = 18
KEYS = "openssl.keys"
OLD_CIPHERS = "ALL:@SECLEVEL=0"


def request(number: int) -> bytes:
    """Return ApiVersions, version 0, with the size before it."""
    client_id = b"stand-in"
    body = struct.pack(">hhih", API_VERSIONS, 0, number, len(client_id)) + client_id
    return struct.pack(">i", len(body)) + body


def response(number: int) -> bytes:
    """Return an answer to it: two APIs."""
    body = struct.pack(">ihi", number, 0, 2) + struct.pack(">hhhhhh", 3, 0, 13, 18, 0, 4)
    return struct.pack(">i", len(body)) + body


SIZE = len(request(0))


def certificate(folder: Path, words: Sequence[str]) -> list[str]:
    """Make a key and a certificate; return s_server's options for them."""
    key, signed = folder / "key.pem", folder / "certificate.pem"
    about = ["-x509", "-nodes", "-days", "30", "-subj", "/CN=localhost"]
    files = ["-keyout", str(key), "-out", str(signed)]
    run(["openssl", "req", *about, "-newkey", *words, *files], timeout=60)
    return ["-cert", str(signed), "-key", str(key)]


class Server:
    """A server of Python's ssl that answers a fixed number of requests of a connection."""

    def __init__(self, folder: Path, versions: Sequence[str], ciphers: str | None) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if ciphers is not None:
            context.set_ciphers(ciphers)
        context.minimum_version = ssl.TLSVersion[min(versions)]
        context.maximum_version = ssl.TLSVersion[max(versions)]
        context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
        self._context = context
        self._listener = socket.create_server((HOST, PORT))
        self._listener.settimeout(SECONDS)

    def answer_one(self) -> None:
        """Accept a connection, answer its requests and close it."""
        plain, _ = self._listener.accept()
        plain.settimeout(SECONDS)
        with self._context.wrap_socket(plain, server_side=True) as talk:
            for number in range(1, REQUESTS + 1):
                held = b""
                while len(held) < SIZE:
                    held += talk.recv(SIZE - len(held))
                talk.sendall(response(number))
            talk.unwrap()


def client(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start s_client; it writes its secrets down."""
    about = ["-connect", f"{HOST}:{PORT}", "-keylogfile", str(folder / KEYS)]
    return subprocess.Popen(
        ["openssl", "s_client", *about, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def talk(server: Server, folder: Path, *words: str) -> None:
    """Make one connection of s_client, with its requests one after the other."""
    child = client(folder, *words)
    try:
        assert child.stdin is not None
        child.stdin.write(b"".join(map(request, range(1, REQUESTS + 1))))
        child.stdin.flush()
        server.answer_one()
        child.communicate(timeout=SECONDS)
    finally:
        end_group(child)


def ecdsa(folder: Path) -> None:
    """Connect with TLS 1.2 and TLS 1.3 to a server whose key is of a curve."""
    certificate(folder, ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
    server = Server(folder, ("TLSv1_2", "TLSv1_3"), None)
    talk(server, folder, "-tls1_2")
    talk(server, folder, "-tls1_3")


def ticket(folder: Path) -> None:
    """Connect with TLS 1.2, and twice again with the ticket of the first session."""
    certificate(folder, ["rsa:2048"])
    server = Server(folder, ("TLSv1_2",), None)
    session = str(folder / "session.pem")
    talk(server, folder, "-tls1_2", "-sess_out", session)
    talk(server, folder, "-tls1_2", "-sess_in", session)
    talk(server, folder, "-tls1_2", "-sess_in", session)


def old(folder: Path) -> None:
    """Connect with TLS 1.0 and TLS 1.1, which OpenSSL speaks at security level 0."""
    certificate(folder, ["rsa:2048"])
    server = Server(folder, ("TLSv1", "TLSv1_1"), OLD_CIPHERS)
    talk(server, folder, "-tls1", "-cipher", OLD_CIPHERS)
    talk(server, folder, "-tls1_1", "-cipher", OLD_CIPHERS)


def early(folder: Path) -> None:
    """Connect twice with TLS 1.3; the second connection's first request is early data."""
    # Without -quiet, which would hide the early data.
    files = certificate(folder, ["rsa:2048"])
    words = ["-accept", f"{HOST}:{PORT}", "-naccept", "2", "-tls1_3"]
    # With its protection against replay it refuses the data now and then.
    words += ["-early_data", "-no_anti_replay", "-max_early_data", "4096"]
    server = subprocess.Popen(
        ["openssl", "s_server", *words, *files],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    session, first = folder / "session.pem", folder / "early.bin"
    first.write_bytes(request(1))
    try:
        _until_listening()
        _talk_to_openssl(server, folder, 1, "-sess_out", str(session))
        words = ["-sess_in", str(session), "-early_data", str(first)]
        _talk_to_openssl(server, folder, 2, *words)
    finally:
        end_group(server)


def _until_listening() -> None:
    for _ in range(100):
        if run(["ss", "-Hltn", f"sport = :{PORT}"], timeout=5).stdout:
            return
    raise RecorderError("s_server does not listen")


def _talk_to_openssl(
    server: subprocess.Popen[bytes], folder: Path, first: int, *words: str
) -> None:
    """Make one connection; the requests before ``first`` are sent as early data."""
    child = client(folder, "-tls1_3", *words)
    try:
        for number in range(1, REQUESTS + 1):
            if number >= first:
                _send(child, request(number))
            _wait(server, request(number))
            _send(server, response(number))
            _wait(child, response(number))
        # With its input its connection ends, and not before: else the alert is of an error.
        child.communicate(timeout=SECONDS)
    finally:
        end_group(child)


def _send(child: subprocess.Popen[bytes], data: bytes) -> None:
    assert child.stdin is not None
    child.stdin.write(data)
    child.stdin.flush()


def _wait(child: subprocess.Popen[bytes], data: bytes) -> None:
    """Read what a program writes until these bytes have come; it writes words of its own too."""
    assert child.stdout is not None
    seen = b""
    while not seen.endswith(data):
        more = os.read(child.stdout.fileno(), 1)
        if not more:
            raise RecorderError("openssl ended")
        seen += more


SCENARIOS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "tls-ecdsa": ("A server with an ECDSA certificate: TLS 1.2 and TLS 1.3.", ecdsa),
    "tls12-ticket": ("Two of three sessions of TLS 1.2 are resumed by a ticket.", ticket),
    "tls13-early-data": ("A session is resumed, and its first request is 0-RTT data.", early),
    "tls10-and-11": ("TLS 1.0 and TLS 1.1.", old),
}


def record(name: str, out: Path) -> None:
    """Write a capture, its secrets, what it is, and what tshark reads."""
    summary, _ = SCENARIOS[name]
    how = Recording()
    capture, keylog = out / f"{name}.pcap", out / f"{name}.keys"
    with (
        tempfile.TemporaryDirectory() as temporary,
        Namespace(name, mtu=1500, offload=False) as namespace,
    ):
        folder = Path(temporary)
        sniffer = Sniffer(how, namespace, folder / capture.name, f"tcp port {PORT}")
        try:
            words = [sys.executable, str(Path(__file__).resolve()), "--inside", name, temporary]
            run(namespace.command(words), timeout=60)
        except BaseException:
            sniffer.abandon()
            raise
        taken = sniffer.stop()
        shutil.copyfile(folder / capture.name, capture)
        lines = (folder / KEYS).read_text().splitlines()
    own = [line for line in dict.fromkeys(lines) if not line.startswith("#")]
    keylog.write_text("".join(f"{line}\n" for line in own))
    truth = _about(name, summary, how.command(Path(capture.name), f"tcp port {PORT}"), taken)
    (out / f"{name}.truth.json").write_text(json.dumps(truth, indent=1) + "\n")
    write_reading(out, name, capture, keylog, [PORT])


def _about(name: str, summary: str, command: Sequence[str], taken: Taken) -> dict[str, Any]:
    if taken.dropped:
        raise RecorderError(f"{taken.dropped} packets were dropped")
    openssl = run(["openssl", "version"], timeout=5).stdout.split()[1]
    return {
        "format": 1,
        "capture": f"{name}.pcap",
        "stand_in": f"OpenSSL {openssl}",
        "summary": summary,
        "made_by": {
            "command": f"python3 tools/record/stand_in_tls.py {name}",
            "recorded_on": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "capture_command": " ".join(command),
            "capture_program": version("tcpdump"),
            "kafka": None,
            "kernel": platform.release(),
        },
        "packets": taken.packets,
        "dropped_by_kernel": taken.dropped,
        "link_type": "ether",
        "mtu": 1500,
        "segmentation_offload": False,
        "ports": {"SSL": PORT},
        "requests_of_a_connection": REQUESTS,
        "clients": [{"library": "openssl s_client", "version": openssl}],
    }


def main(words: Sequence[str]) -> int:
    """Make them; 2 when something stands in the way."""
    if words[:1] == ["--inside"]:
        SCENARIOS[words[1]][1](Path(words[2]))
        return 0
    try:
        need_root()
        need("openssl", "tcpdump", "tshark", "ss")
        for name in words or SCENARIOS:
            record(name, FOLDER)
            print(name, flush=True)
        write_provenance(FOLDER)
    except RecorderError as error:
        print(f"stand_in_tls.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
