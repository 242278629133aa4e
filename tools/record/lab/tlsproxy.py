"""A proxy that ends TLS in front of the broker: with OpenSSL, which can do what Java cannot."""

from collections.abc import Iterator
from contextlib import contextmanager

from lab.broker import PORTS, PROTOCOLS, address
from lab.cache import HERE
from lab.processes import end_group, start, wait_for
from lab.scenario import Lab

BROKER_PORT = 9099
# The proxy takes the place of the broker's TLS listener, which is moved and speaks plaintext.
SETTINGS = {
    "listeners": ",".join(
        f"{name}://127.0.0.1:{BROKER_PORT}" if name == "SSL" else f"{name}://{address(name)}"
        for name in PORTS
    ),
    "listener.security.protocol.map": PROTOCOLS.replace(",SSL:SSL,", ",SSL:PLAINTEXT,"),
}


@contextmanager
def proxy(lab: Lab, ciphers: str) -> Iterator[None]:
    """Let a proxy run that takes these ciphers of TLS 1.2; whose connection is whose is kept."""
    log = lab.folder / "proxy.log"
    keystore = lab.tls_broker.folder / "keystore.pem"
    words = [str(PORTS["SSL"]), str(BROKER_PORT), str(keystore), str(lab.keylog("proxy")), ciphers]
    program = [str(lab.tools.python), str(HERE / "clients" / "terminator.py"), *words]
    child = start(lab.namespace.command(program), log=log)
    try:
        wait_for("the proxy to listen", lambda: "listening" in log.read_text(), timeout=15)
        yield
    finally:
        lab.broker.wait_idle()
        end_group(child)
    pairs = (line.split() for line in log.read_text().splitlines() if line[0].isdigit())
    lab.behind |= {seen: client for client, seen in pairs}
