"""A broker whose certificate an authority signed, and whose secrets of TLS an agent writes down."""

from pathlib import Path
from typing import Any

from lab.authority import Authority
from lab.broker import Broker
from lab.cache import agent


class TlsBroker(Broker):
    """A broker with two more keystores to choose from: ``expired`` and ``client`` (for clients)."""

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **more)
        self.keylog = self.folder / "broker.keys"

    @property
    def client_keystore(self) -> Path:
        """Key and certificate of a client, for listeners that ask for one."""
        return self.folder / "ca" / "client.keystore.pem"

    @property
    def stranger(self) -> Path:
        """The certificate of an authority that signed nothing here."""
        return self.folder / "other-ca" / "ca.pem"

    def _make_key(self) -> None:
        authority = Authority(self.folder / "ca")
        Authority(self.folder / "other-ca", "Another CA")
        authority.keystore("expired", expired=True)
        authority.keystore("client")
        authority.keystore("localhost").rename(self.folder / "keystore.pem")
        self.certificate = authority.certificate

    def _watched(self) -> tuple[str, ...]:
        return (*super()._watched(), agent_option(self.keylog))


def agent_option(keylog: Path) -> str:
    """The option that makes a JVM write the secrets of its TLS connections."""
    return f"-javaagent:{agent()}={keylog}"
