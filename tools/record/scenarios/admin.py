"""Administrators: topics created, described, changed, deleted; groups listed."""

from lab.scenario import CONFIGS, GROUPS, TOPICS, Lab, Scenario


def run(lab: Lab) -> None:
    """The same life of a topic, by three clients."""
    lab.worker("confluent", "administer", topic="admin-confluent")
    lab.worker("kafka_python", "administer", topic="admin-kafka-python")
    for main_class, words in (
        (TOPICS, "--create --topic admin-java --partitions 4 --replication-factor 1"),
        (TOPICS, "--create --topic admin-java"),
        (TOPICS, "--describe --topic admin-java"),
        (TOPICS, "--alter --topic admin-java --partitions 6"),
        (CONFIGS, "--alter --topic admin-java --add-config retention.ms=60000"),
        (CONFIGS, "--describe --topic admin-java"),
        (GROUPS, "--list"),
        (GROUPS, "--describe --group admin-no-such-group"),
        (TOPICS, "--delete --topic admin-java"),
    ):
        # Creating it twice and describing what is not there are meant to fail.
        lab.tool(main_class, *words.split(), may_fail=True)
        lab.java_client("administer", main_class.rpartition(".")[2], arguments=words)


SCENARIO = Scenario(
    name="admin",
    summary="Topics created (one of them twice), described, changed and deleted, and groups "
    "listed and described, by three clients.",
    run=run,
)
