"""What tshark reads in a capture of TLS with a key log: requests and responses, and handshakes."""

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import asdict, astuple, dataclass, field, fields
from pathlib import Path
from typing import Any

from lab.errors import RecorderError
from lab.processes import need, run

ENCRYPT_THEN_MAC = "22"
CLIENT_HELLO, SERVER_HELLO, CERTIFICATE, KEY_UPDATE = 1, 2, 11, 24
SERVER_NAME = "tls.handshake.extensions_server_name"
PSK = "tls.handshake.extensions.psk.identity.selected"
EXTENSION = "tls.handshake.extension.type"
KEY, VERSION = "kafka.api_key", "kafka.api_version"
VERSIONS = {"0x0301": "1.0", "0x0302": "1.1", "0x0303": "1.2", "0x0304": "1.3"}
SIDES = ("src", "dst")


@dataclass
class Request:
    """A request, with the sizes that stand before it and before its response."""

    client: str
    correlation_id: int
    api_key: int
    api_version: int
    request_bytes: int
    response_bytes: int | None = None


@dataclass
class Connection:
    """What a connection's TLS records say."""

    client: str
    server: str
    version: str | None = None
    suite: str | None = None
    server_name: str | None = None
    resumed: bool | None = None
    encrypt_then_mac: bool = False
    client_certificate: bool = False
    key_updates: int = 0
    alerts: list[dict[str, str]] = field(default_factory=list)
    offered_session: str = ""

    def told(self) -> dict[str, Any]:
        """Return what is written down."""
        return {name: value for name, value in asdict(self).items() if name != "offered_session"}


@dataclass
class Reading:
    """All that tshark read in a capture."""

    requests: list[Request]
    connections: list[Connection]


def read(capture: Path, keylog: Path | None, ports: Collection[int]) -> Reading:
    """Let tshark decrypt a capture, as ``tshark -o tls.keylog_file:KEYLOG -Y kafka`` does.

    ``ports`` are those that speak TLS. A request without a response has none in the file.
    """
    need("tshark")
    words = ["tshark", "-r", str(capture), "-2", "-T", "pdml"]
    words += ["-Y", "kafka or tls or tcp.flags.syn"]
    for port in ports:
        words += ["-d", f"tcp.port=={port},tls", "-d", f"tls.port=={port},kafka"]
    if keylog is not None:
        words += ["-o", f"tls.keylog_file:{keylog}"]
    # Segments that arrive in another order are put in order before they are read.
    words += ["-o", "tcp.reassemble_out_of_order:TRUE"]
    told = run(words, timeout=120)
    reader = _Reader(ports)
    for packet in ET.fromstring(told.stdout).iter("packet"):
        reader.take(packet)
    return reader.reading


def by_version(requests: Iterable[Request]) -> dict[str, dict[str, int]]:
    """Return ``{API key: {version: requests}}``."""
    counts = Counter((one.api_key, one.api_version) for one in requests)
    table: dict[str, dict[str, int]] = {}
    for (key, version), number in sorted(counts.items()):
        table.setdefault(str(key), {})[str(version)] = number
    return table


def lines(requests: Iterable[Request]) -> str:
    """Return the requests as lines of values between tabs, their names on the first."""
    rows: list[Iterable[object]] = [[one.name for one in fields(Request)]]
    rows += [("" if value is None else value for value in astuple(one)) for one in requests]
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


class _Reader:
    """Packets of tshark's, taken one after the other."""

    def __init__(self, ports: Iterable[int]) -> None:
        self._ports = {str(port) for port in ports}
        self._connections: dict[str, Connection] = {}
        self._waiting: dict[tuple[str, int], Request] = {}
        self.requests: list[Request] = []

    @property
    def reading(self) -> Reading:
        """All that was taken."""
        return Reading(self.requests, list(self._connections.values()))

    def take(self, packet: ET.Element) -> None:
        """Take a packet: what stands in it in the clear, and what tshark decrypted."""
        layers = {proto.get("name"): proto for proto in packet.findall("proto")}
        ip, tcp = layers["ip"], layers["tcp"]
        sides = ((_shown(ip, f"ip.{side}"), _shown(tcp, f"tcp.{side}port")) for side in SIDES)
        ends = [f"{host}:{port}" for host, port in sides]
        from_client = _shown(tcp, "tcp.dstport") in self._ports
        client, server = ends if from_client else reversed(ends)
        connection = self._connections.setdefault(client, Connection(client, server))
        for proto in packet.findall("proto"):
            if proto.get("name") == "tls":
                for record in proto.findall("field"):
                    _take_record(connection, record, from_client=from_client)
            elif proto.get("name") == "kafka":
                self._take_message(client, proto, from_client=from_client)

    def _take_message(self, client: str, message: ET.Element, *, from_client: bool) -> None:
        size = int(_shown(message, "kafka.len"))
        number = int(_shown(message, "kafka.correlation_id"))
        if from_client:
            key, version = int(_shown(message, KEY)), int(_shown(message, VERSION))
            request = Request(client, number, key, version, size)
            self._waiting[client, number] = request
            self.requests.append(request)
        elif (client, number) in self._waiting:
            self._waiting.pop((client, number)).response_bytes = size


def _take_record(connection: Connection, record: ET.Element, *, from_client: bool) -> None:
    """Take the messages of a record; one that could not be decrypted has no type."""
    for message in record.iter("field"):
        name = message.get("name")
        if name == "tls.handshake" and _values(message, "tls.handshake.type"):
            _take_handshake(connection, message, from_client=from_client)
        elif name == "tls.alert_message" and _values(message, "tls.alert_message.desc"):
            by = "client" if from_client else "broker"
            level, what = (_name(message, f"tls.alert_message.{one}") for one in ("level", "desc"))
            connection.alerts.append({"by": by, "level": level, "description": what})


def _take_handshake(connection: Connection, message: ET.Element, *, from_client: bool) -> None:
    kind = int(_shown(message, "tls.handshake.type"))
    session = _shown(message, "tls.handshake.session_id", "")
    if kind == CLIENT_HELLO:
        connection.offered_session = session
        connection.server_name = _shown(message, SERVER_NAME, "") or None
    elif kind == SERVER_HELLO:
        legacy = _shown(message, "tls.handshake.version")
        version = _shown(message, "tls.handshake.extensions.supported_version", legacy)
        connection.version = VERSIONS.get(version, version)
        connection.suite = _name(message, "tls.handshake.ciphersuite")
        connection.encrypt_then_mac = ENCRYPT_THEN_MAC in _values(message, EXTENSION)
        if version == legacy:
            connection.resumed = session != "" and session == connection.offered_session
        else:
            connection.resumed = bool(_values(message, PSK))
    elif kind == CERTIFICATE and from_client:
        listed = _shown(message, "tls.handshake.certificates_length")
        connection.client_certificate = listed != "0"
    elif kind == KEY_UPDATE:
        connection.key_updates += 1


def _values(layer: ET.Element, name: str) -> list[str]:
    """Return the values of a field, as tshark shows them."""
    return [one.get("show", "") for one in layer.iter("field") if one.get("name") == name]


def _shown(layer: ET.Element, name: str, default: str | None = None) -> str:
    """Return the first value of a field that must be there if there is no default."""
    found = _values(layer, name)
    if found:
        return found[0]
    if default is None:
        raise RecorderError(f"tshark shows no {name}")
    return default


def _name(layer: ET.Element, name: str) -> str:
    """Return the name that tshark has for a field's value: ``Cipher Suite: NAME (0x1302)``."""
    [shown, *_] = [one.get("showname") for one in layer.iter("field") if one.get("name") == name]
    return str(shown).partition(": ")[2].partition(" (")[0]
