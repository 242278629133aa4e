"""Filters of rows: how each is spelled in the shell, what it means, how reports name it.

In: nothing. Out: :data:`FILTERS`. Which rows meet a filter is in :mod:`kanalyze.tables.filters`;
what Python's users may give is in :mod:`kanalyze.api.options`.
"""

from __future__ import annotations

from kanalyze.spec.options import Option

_UTC = "ISO 8601, in UTC, with nanoseconds"


class Filter(Option):
    """A filter of rows."""

    def __init__(
        self, spelling: str, text: str, *, label: str = "", meaning: str, unit: str = ""
    ) -> None:
        """Declare a filter.

        Args:
            spelling: see :class:`~kanalyze.spec.options.Option`.
            text: the meaning, for the help; ``{rows}`` is what the rows of the command are.
            label: its name in the report for people; empty for that of the option.
            meaning: the meaning of its field in the report as JSON.
            unit: the unit of this field; it is part of the field's name.
        """
        super().__init__(spelling, text)
        self.label = label or self.name.replace("_", " ")
        self.meaning = meaning
        self.unit = unit
        self.field = f"{self.name}_{unit}" if unit else self.name
        """Its name in reports."""


FILTERS = {
    each.name: each
    for each in (
        Filter(
            "--api NAME ...",
            "API by name or key, such as Produce",
            label="API",
            meaning="names of APIs, or their numbers",
        ),
        Filter(
            "--client-id GLOB ...",
            "client id, such as 'billing-*'",
            meaning="client ids; * and ? stand for any text",
        ),
        Filter(
            "--principal GLOB ...",
            "user that has logged in on the connection, such as 'billing-*'",
            meaning="users that have logged in; * and ? stand for any text",
        ),
        Filter(
            "--client-ip IP ...",
            "client address, or network such as 10.0.0.0/8",
            label="client address",
            meaning="addresses or networks of clients",
        ),
        Filter(
            "--broker IP[:PORT] ...",
            "broker address, whose connections are treated as Kafka whatever their bytes look like",
            meaning="brokers, as IP or IP:PORT",
        ),
        Filter(
            "--port N ...",
            "only brokers on this TCP port, whose connections are treated as Kafka whatever their "
            "bytes look like",
            meaning="TCP ports of brokers",
        ),
        Filter(
            "--client-app GLOB ...",
            "application of the client's address, as --names has it",
            label="client application",
            meaning="applications of clients, by the names of addresses; * and ? stand for any "
            "text",
        ),
        Filter(
            "--zone GLOB ...",
            "zone of the client's address, as --names has it",
            label="client zone",
            meaning="zones of clients, by the names of addresses; * and ? stand for any text",
        ),
        Filter("--topic GLOB ...", "topic", meaning="topics; * and ? stand for any text"),
        Filter(
            "--partition N ...",
            "partition: its number (of --topic, if given), or TOPIC-N such as orders-3",
            meaning="partitions, as N or TOPIC-N",
        ),
        Filter(
            "--group GLOB ...",
            "consumer group",
            meaning="consumer groups; * and ? stand for any text",
        ),
        Filter(
            "--connection TEXT ...",
            "connection, such as '10.0.0.7:51812>10.0.0.2:9092', or its client's end alone",
            meaning="connections, or the clients' ends of connections",
        ),
        Filter(
            "--packet N ...",
            "the request or response that begins in this packet, as Wireshark numbers it",
            meaning="numbers of packets that requests or responses begin in",
        ),
        Filter(
            "--correlation-id N ...",
            "correlation id",
            label="correlation id",
            meaning="correlation ids",
        ),
        Filter(
            "--anomaly KIND ...",
            "requests with an anomaly of this kind, such as malformed_body, whatever their status",
            meaning="kinds of anomalies that requests have",
        ),
        Filter(
            "--status WORD ...",
            "ok, error, one_way (no response is due), unanswered, orphan_response or malformed",
            meaning="statuses of rows",
        ),
        Filter(
            "--error NAME ...",
            "error code, such as NOT_LEADER_OR_FOLLOWER or 6, in the response",
            meaning="names of error codes in the response",
        ),
        Filter(
            "--errors",
            "only requests answered with an error code, or with a response that was not read",
            label="with errors, or with a response that was not read",
            meaning="only requests with an error code, or whose response was not read; never false",
        ),
        Filter(
            "--slower-than TIME",
            "only requests with a higher latency, such as 10ms or 1.5s, except those that the "
            "broker held back on purpose",
            meaning="only requests with a longer latency",
            unit="ns",
        ),
        Filter(
            "--since TIME",
            "only {rows} from this time on: ISO 8601, a time of day such as 22:46 (on the day of "
            "the first packet), +5m (after the first packet), -1h (before the last packet), or "
            "Unix seconds",
            meaning=f"begun at this time or later, {_UTC}",
        ),
        Filter(
            "--until TIME",
            "only {rows} before this time, in the same forms",
            meaning=f"begun before this time, {_UTC}",
        ),
    )
}
"""Filters by name, in the order of reports."""

BY_NAMES = ("client_app", "zone")
"""Filters that select by names of addresses."""


def group_of(*names: str, rows: str = "requests") -> dict[str, str]:
    """Return filters as a group of options; ``rows`` is what the rows of the command are."""
    filters = (FILTERS[name] for name in names)
    return {each.spelling: each.text.format(rows=rows) for each in filters}
