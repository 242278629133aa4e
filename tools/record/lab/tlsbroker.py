"""A broker whose certificate an authority signed, and whose secrets of TLS an agent writes down."""

from collections.abc import Mapping
from pathlib import Path

from lab.authority import Authority
from lab.broker import Broker
from lab.cache import Tools, agent
from lab.namespace import Namespace


class TlsBroker(Broker):
    """A broker with keystores to choose from, in its folder ``ca``: ``expired`` and ``client``.

    ``security`` are lines of Java's own security properties, for the broker and for clients.
    """

    def __init__(
        self,
        tools: Tools,
        namespace: Namespace,
        folder: Path,
        settings: Mapping[str, str],
        security: str = "",
    ) -> None:
        super().__init__(tools, namespace, folder, settings)
        self.keylog = folder / "broker.keys"
        self._security = security

    @property
    def client_keystore(self) -> Path:
        """Key and certificate of a client, for listeners that ask for one."""
        return self.folder / "ca" / "client.keystore.pem"

    @property
    def stranger(self) -> Path:
        """The certificate of an authority that signed nothing here."""
        return self.folder / "other-ca" / "ca.pem"

    def secret_options(self, keylog: Path) -> tuple[str, ...]:
        """Return the options that make a JVM write the secrets of its TLS connections."""
        option = f"-javaagent:{agent()}={keylog}"
        return (option, f"-Djava.security.properties={self._properties_of_java}")

    @property
    def _properties_of_java(self) -> Path:
        return self.folder / "java.security"

    def _make_key(self) -> None:
        self._properties_of_java.write_text(self._security)
        authority = Authority(self.folder / "ca")
        Authority(self.folder / "other-ca", "Another CA")
        authority.keystore("expired", expired=True)
        authority.keystore("client")
        authority.keystore("localhost").rename(self.folder / "keystore.pem")
        self.certificate = authority.certificate

    def _watched(self) -> tuple[str, ...]:
        return (*super()._watched(), *self.secret_options(self.keylog))
