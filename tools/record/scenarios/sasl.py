"""Who may come in and what they may do: SASL with right and wrong passwords, and ACLs."""

from typing import Any

from lab.broker import PASSWORDS, SASL_MODULE, address
from lab.scenario import ACLS, CONFIGS, Lab, Scenario, sends_of

OPEN, LOOK = "sasl-open", "sasl-look"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def setup(lab: Lab) -> None:
    """Credentials, and topics: alice may do all with one, bob may look at the other."""
    lab.create_topics({OPEN: {"partitions": 1}, LOOK: {"partitions": 1}})
    for name, word in PASSWORDS.items():
        users = ("--entity-type", "users", "--entity-name", name)
        for kind in MECHANISMS[1:]:
            credential = f"{kind}=[iterations=4096,password={word}]"
            lab.tool(CONFIGS, "--alter", "--add-config", credential, *users)
    allow = ("--add", "--allow-principal")
    everything = ("--operation", "All", "--topic", OPEN, "--group", "*")
    lab.tool(ACLS, *allow, "User:alice", *everything)
    lab.tool(ACLS, *allow, "User:bob", "--operation", "Describe", "--topic", LOOK)


def run(lab: Lab) -> None:
    """Each library with each mechanism; then wrong passwords; then what bob may not do."""
    for client in ("confluent", "kafka_python", "aiokafka"):
        for mechanism in MECHANISMS:
            _worker(lab, client, "produce", mechanism, sends=sends_of(OPEN, 4, 60))
    java = _java("SCRAM-SHA-512", PASSWORDS["alice"])
    lab.console_producer(OPEN, ["one", "two"], acks="all", listener="SASL", settings=java)
    lab.console_consumer(
        OPEN,
        "--from-beginning --max-messages 38",
        listener="SASL",
        client_id="console-consumer",
        settings=_java("PLAIN", PASSWORDS["alice"]),
    )
    _worker(lab, "kafka_python", "consume", "SCRAM-SHA-256", assign=[[OPEN, 0]], count=38)
    for client in ("confluent", "kafka_python", "aiokafka"):
        for mechanism in ("PLAIN", "SCRAM-SHA-256"):
            _worker(lab, client, "knock", mechanism, word="wrong", sends=sends_of(OPEN, 0, 60))
    wrong = _java("SCRAM-SHA-256", "wrong")
    lab.console_producer(OPEN, [], acks="all", listener="SASL", settings=wrong, may_fail=True)
    for client in ("confluent", "kafka_python", "aiokafka"):
        _worker(lab, client, "produce", "PLAIN", user="bob", sends=sends_of("sasl-hidden", 1, 60))
    _worker(lab, "confluent", "produce", "PLAIN", user="bob", sends=sends_of(LOOK, 1, 60))
    lab.rejected[LOOK] = 1


def _worker(
    lab: Lab,
    client: str,
    op: str,
    mechanism: str,
    *,
    user: str = "alice",
    word: str | None = None,
    **job: Any,
) -> None:
    password = word or PASSWORDS[user]
    config: dict[str, Any]
    if client == "confluent":
        config = {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "message.timeout.ms": 3000,
            "reconnect.backoff.ms": 900,
        }
    else:
        config = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
            "sasl_plain_username": user,
            "sasl_plain_password": password,
            "request_timeout_ms": 5000,
        }
    if client == "kafka_python":
        config |= {"max_block_ms": 3000} if op != "consume" else {}
    if op != "consume":
        job["acks"] = 1
    client_id = f"{client}-{op}-{mechanism}-{user}"
    lab.worker(client, op, config=config, client_id=client_id, bootstrap=address("SASL"), **job)
    lab.clients[-1] |= {"mechanism": mechanism, "user": user, "may_enter": word is None}


def _java(mechanism: str, password: str) -> tuple[str, ...]:
    name = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    login = f'{SASL_MODULE}.{name} required username="alice" password="{password}";'
    return (
        "security.protocol=SASL_PLAINTEXT",
        f"sasl.mechanism={mechanism}",
        f"sasl.jaas.config={login}",
        "max.block.ms=3000",
    )


SCENARIO = Scenario(
    name="sasl",
    summary="PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 with right and wrong passwords, by four "
    "clients; topics that one of the users may not see, or see but not write to.",
    setup=setup,
    run=run,
    listeners=("SASL",),
    settings={
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    },
)
