"""Admin requests of many kinds, by Kafka's own tools."""

import json

from lab.scenario import ACLS, CONFIGS, GROUPS, TOPICS, Lab, Scenario

TOOLS = "org.apache.kafka.tools"
TOPIC = "many"
FILES = {
    "records.json": {
        "partitions": [{"topic": TOPIC, "partition": 0, "offset": 5}],
        "version": 1,
    },
    "move.json": {
        "partitions": [{"topic": TOPIC, "partition": 0, "replicas": [1], "log_dirs": ["any"]}],
        "version": 1,
    },
}
COMMANDS = (
    (f"{TOOLS}.DeleteRecordsCommand", "--offset-json-file {folder}/records.json"),
    (f"{TOOLS}.LogDirsCommand", "--describe"),
    (f"{TOOLS}.FeatureCommand", "describe"),
    (f"{TOOLS}.FeatureCommand", "upgrade --feature transaction.version=1 --dry-run"),
    (f"{TOOLS}.MetadataQuorumCommand", "describe --status"),
    (f"{TOOLS}.MetadataQuorumCommand", "describe --replication"),
    (f"{TOOLS}.ClusterTool", "cluster-id"),
    (f"{TOOLS}.ClusterTool", "list-endpoints"),
    (f"{TOOLS}.BrokerApiVersionsCommand", ""),
    (f"{TOOLS}.GroupsCommand", "--list"),
    (f"{TOOLS}.TransactionsCommand", "list"),
    (f"{TOOLS}.TransactionsCommand", "describe --transactional-id no-such-id"),
    (f"{TOOLS}.TransactionsCommand", f"describe-producers --topic {TOPIC} --partition 0"),
    (f"{TOOLS}.LeaderElectionCommand", "--election-type preferred --all-topic-partitions"),
    (f"{TOOLS}.reassign.ReassignPartitionsCommand", "--execute {move}"),
    (f"{TOOLS}.reassign.ReassignPartitionsCommand", "--list"),
    (f"{TOOLS}.reassign.ReassignPartitionsCommand", "--verify {move}"),
    (f"{TOOLS}.ClientMetricsCommand", "--alter --name many --metrics org.apache --interval 10000"),
    (f"{TOOLS}.ClientMetricsCommand", "--describe --name many"),
    (ACLS, "--add --allow-principal User:carol --operation Read --topic many"),
    (ACLS, "--list"),
    (ACLS, "--remove --force --allow-principal User:carol --operation Read --topic many"),
    (CONFIGS, "--alter --entity-type users --entity-name carol --add-config {quota}"),
    (CONFIGS, "--describe --entity-type users --entity-name carol"),
    (CONFIGS, "--alter --entity-type users --entity-name carol --add-config {scram}"),
    (CONFIGS, "--describe --entity-type brokers --entity-name 1 --all"),
    (CONFIGS, "--alter --entity-type brokers --entity-default --add-config {broker}"),
    (GROUPS, "--group many-group --topic many --reset-offsets --to-earliest --execute"),
    (GROUPS, "--group many-group --describe --offsets"),
    (GROUPS, "--group many-group --describe --members --state"),
    (GROUPS, "--group many-group --delete-offsets --topic many"),
    (GROUPS, "--group many-group --delete"),
    (TOPICS, "--list"),
    (TOPICS, "--delete --topic no-such-topic"),
)


def setup(lab: Lab) -> None:
    """A topic with records, and the files that two of the tools read."""
    lab.create_topics({TOPIC: {"partitions": 2}})
    sends = [{"topic": TOPIC, "partition": part, "count": 10, "size": 50} for part in (0, 1)]
    lab.produce("confluent", sends, client_id="setup")
    lab.clients.clear()
    for name, content in FILES.items():
        (lab.folder / name).write_text(json.dumps(content))


def run(lab: Lab) -> None:
    """One after the other; some are meant to be refused."""
    words = {
        "folder": str(lab.folder),
        "move": f"--reassignment-json-file {lab.folder}/move.json",
        "quota": "producer_byte_rate=1000000,consumer_byte_rate=2000000",
        "scram": "SCRAM-SHA-256=[iterations=4096,password=carol-secret]",
        "broker": "log.retention.ms=7200000",
    }
    for main_class, line in COMMANDS:
        lab.tool(main_class, *line.format(**words).split(), may_fail=True)
        told = line.replace("{folder}/", "")
        lab.java_client("administer", main_class.rpartition(".")[2], arguments=told)


SCENARIO = Scenario(
    name="admin-many",
    summary="Admin requests of many kinds: records deleted, log folders, features, quorum, "
    "reassignment, elections, ACLs, quotas, SCRAM users, client metrics, offsets reset and "
    "deleted.",
    setup=setup,
    run=run,
    settings={
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    },
)
