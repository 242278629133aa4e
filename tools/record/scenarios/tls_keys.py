"""TLS whose secrets are kept: each client, version and suite, and handshakes that fail."""

from collections.abc import Callable, Mapping
from typing import Any

from lab.broker import PASSWORDS
from lab.scenario import CONFIGS, Lab, Scenario
from lab.tlsclients import MECHANISM, TOPIC, USER, Clients
from lab.tlsproxy import SETTINGS, proxy

TLS_1_2, TLS_1_3 = "TLSv1.2", "TLSv1.3"
PROTOCOLS, SUITES, KEYSTORE = "ssl.enabled.protocols", "ssl.cipher.suites", "ssl.keystore.location"
CERTIFICATES = {
    "ssl.client.auth": "required",
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": "{folder}/ca/ca.pem",
}

# With which each capture of a suite is made: one of each kind of TLS library.
KINDS = ("java", "confluent", "kafka_python", "kafkajs", "franz")
WITHOUT_GO = KINDS[:-1]
OF_1_3 = {
    "aes128gcm": "TLS_AES_128_GCM_SHA256",
    "aes256gcm": "TLS_AES_256_GCM_SHA384",
    "chacha20": "TLS_CHACHA20_POLY1305_SHA256",
}
OF_1_2 = {
    "aes128gcm": ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", KINDS),
    "aes256gcm": ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", KINDS),
    "chacha20": ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", KINDS),
    "aes256cbc-sha1": ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", KINDS),
    # Go offers none of these unless it is told to, and does not know the last.
    "aes128cbc-sha256": ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", WITHOUT_GO),
    "aes256cbc-sha384": ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", WITHOUT_GO),
}
# Each network thread of a broker has sessions of its own: only the same thread resumes one.
ONE_CONTEXT = {"num.network.threads": "1"}
# So that a connection of little traffic gets new keys several times.
SOON = "jdk.tls.keyLimits=AES/GCM/NoPadding KeyUpdate 2^11"


def setup(lab: Lab) -> None:
    """One topic, and a user."""
    lab.create_topics({TOPIC: {"partitions": 1}})


def _setup_user(lab: Lab) -> None:
    setup(lab)
    credential = f"{MECHANISM}=[iterations=4096,password={PASSWORDS[USER]}]"
    user = ("--entity-type", "users", "--entity-name", USER)
    lab.tool(CONFIGS, "--alter", "--add-config", credential, *user)


def _both(*names: str, listener: str = "SSL", **tls: Any) -> Callable[[Lab], None]:
    return lambda lab: Clients(lab, listener, **tls).both(*names)


def _produce(*names: str, **tls: Any) -> Callable[[Lab], None]:
    return lambda lab: Clients(lab, **tls).produce(*names)


def _knock(*names: str, stranger: bool = False, **tls: Any) -> Callable[[Lab], None]:
    def run(lab: Lab) -> None:
        if stranger:
            tls["ca"] = str(lab.tls_broker.stranger)
        clients = Clients(lab, **tls)
        for name in names:
            clients.knock(name)

    return run


def _long(lab: Lab) -> None:
    """Two connections with many records of TLS: captures are cut from these."""
    clients = Clients(lab)
    clients.one_at_a_time("kafka_python", 40)
    clients.one_at_a_time("confluent", 25)


def _through_proxy(ciphers: str) -> Callable[[Lab], None]:
    def run(lab: Lab) -> None:
        with proxy(lab, f"{ciphers}@SECLEVEL=1"):
            Clients(lab, ciphers="ALL@SECLEVEL=1").produce("java", "confluent", "kafka_python")

    return run


def _every(lab: Lab) -> None:
    clients = Clients(lab)
    clients.both("java", "kafkajs", "franz")
    clients.produce("confluent", "kafka_python", "aiokafka")


def _sasl(lab: Lab) -> None:
    clients = Clients(lab, "SASL_SSL")
    clients.produce(*KINDS[1:])
    clients.both("java")


def _other_port(lab: Lab) -> None:
    Clients(lab, plain=True).knock("confluent")
    Clients(lab, "PLAINTEXT").knock("confluent")


def _scenario(
    name: str,
    summary: str,
    run: Callable[[Lab], None],
    settings: Mapping[str, str],
    **more: Any,
) -> Scenario:
    given: dict[str, Any] = {"setup": setup, "listeners": ("SSL",)} | more
    return Scenario(name=name, summary=summary, run=run, settings=settings, tls=True, **given)


def _of_suite(version: str, label: str, suite: str, names: tuple[str, ...]) -> Scenario:
    tls = {"ciphers": "ALL@SECLEVEL=1"} if "cbc" in label else {}
    return _scenario(
        f"tls{version[-3:].replace('.', '')}-{label}",
        f"{suite} ({version}), with {len(names)} clients.",
        _produce(*names, **tls),
        {PROTOCOLS: version, SUITES: suite},
    )


SCENARIOS = (
    *(
        _scenario(
            f"tls{version[-3:].replace('.', '')}-clients",
            f"Six clients write, three of them read, over {version}, each with the suite that it "
            "and the broker like best.",
            _every,
            {PROTOCOLS: version},
        )
        for version in (TLS_1_2, TLS_1_3)
    ),
    *(_of_suite(TLS_1_3, label, suite, KINDS) for label, suite in OF_1_3.items()),
    *(_of_suite(TLS_1_2, label, *of_suite) for label, of_suite in OF_1_2.items()),
    _scenario(
        "tls13-kcat",
        "kcat, whose librdkafka links OpenSSL: a preloaded library writes its secrets.",
        lambda lab: Clients(lab).kcat(),
        {PROTOCOLS: TLS_1_3},
    ),
    _scenario(
        "tls13-sasl",
        f"Five clients write over SASL_SSL ({MECHANISM}), one of them reads.",
        _sasl,
        {PROTOCOLS: TLS_1_3},
        setup=_setup_user,
        listeners=("SASL_SSL",),
    ),
    *(
        _scenario(
            f"tls{version[-3:].replace('.', '')}-mutual",
            f"The broker asks for a certificate ({version}), and three clients have one.",
            _produce("java", "confluent", "franz", certificate=True),
            {PROTOCOLS: version, **CERTIFICATES},
        )
        for version in (TLS_1_2, TLS_1_3)
    ),
    *(
        _scenario(
            f"tls{version[-3:].replace('.', '')}-resumed",
            f"Clients that resume sessions ({version}): Java's, and Go's with a cache of them.",
            _both("java", "franz", resume=True),
            {PROTOCOLS: version, **ONE_CONTEXT},
        )
        for version in (TLS_1_2, TLS_1_3)
    ),
    _scenario(
        "tls13-key-update",
        "Java on both ends takes new keys after 2 KiB each (jdk.tls.keyLimits).",
        _both("java"),
        {PROTOCOLS: TLS_1_3},
        security=SOON,
    ),
    *(
        _scenario(
            f"tls12-etm-{label}",
            f"{ciphers} through a proxy that ends TLS with OpenSSL: encrypt-then-MAC, but for "
            "Java.",
            _through_proxy(ciphers),
            SETTINGS,
        )
        for label, ciphers in (
            ("sha1", "ECDHE-RSA-AES256-SHA"),
            ("sha256", "ECDHE-RSA-AES128-SHA256"),
            ("sha384", "ECDHE-RSA-AES256-SHA384"),
        )
    ),
    *(
        _scenario(
            f"tls{label}-long",
            f"{suite}: two connections, each with many small requests.",
            _long,
            {PROTOCOLS: version, SUITES: suite},
        )
        for label, version, suite in (
            ("13", TLS_1_3, OF_1_3["aes128gcm"]),
            ("12", TLS_1_2, OF_1_2["aes256gcm"][0]),
            ("12-cbc", TLS_1_2, OF_1_2["aes128cbc-sha256"][0]),
        )
    ),
    *(
        _scenario(
            f"tls{version[-3:].replace('.', '')}-unknown-ca",
            f"The broker's certificate is of an authority that no client knows ({version}).",
            _knock("java", "confluent", "kafka_python", stranger=True),
            {PROTOCOLS: version},
        )
        for version in (TLS_1_2, TLS_1_3)
    ),
    *(
        _scenario(
            f"tls{version[-3:].replace('.', '')}-expired",
            f"The broker's certificate has expired ({version}).",
            _knock("java", "kafka_python"),
            {PROTOCOLS: version, KEYSTORE: "{folder}/ca/expired.keystore.pem"},
        )
        for version in (TLS_1_2, TLS_1_3)
    ),
    _scenario(
        "tls-wrong-version",
        "The broker wants TLS 1.3, the clients know no newer version than 1.2.",
        _knock("java", "kafka_python", version=TLS_1_2),
        {PROTOCOLS: TLS_1_3},
    ),
    _scenario(
        "tls-no-suite",
        "Client and broker have no suite in common.",
        _knock("kafka_python", version=TLS_1_2, ciphers="ECDHE-RSA-AES128-GCM-SHA256"),
        {PROTOCOLS: TLS_1_2, SUITES: OF_1_2["aes256gcm"][0]},
    ),
    *(
        _scenario(
            f"tls{version[-3:].replace('.', '')}-no-certificate",
            f"The broker asks for a certificate, and the clients have none ({version}).",
            _knock("java", "kafka_python"),
            {PROTOCOLS: version, **CERTIFICATES},
        )
        for version in (TLS_1_2, TLS_1_3)
    ),
    _scenario(
        "tls-other-port",
        "A client that speaks plaintext to the TLS port, and one that speaks TLS to the plaintext "
        "port.",
        _other_port,
        {},
        listeners=("SSL", "PLAINTEXT"),
        uncounted=True,
    ),
)
