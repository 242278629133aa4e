"""Findings that share a cause are one story."""

from __future__ import annotations

from typing import Any

from kanalyze.queries.files import built_in
from kanalyze.queries.finding import Finding
from kanalyze.queries.findings import kind_of_finding, told
from kanalyze.queries.stories import CauseRule, cause_rules
from tests.queries.test_findings import START_NS, S

KINDS = [kind_of_finding(query) for query in built_in("findings").values()]


def found(
    name: str, from_s: float = 0, until_s: float | None = None, weight: float = 1, **concerns: Any
) -> Finding:
    """A finding of a built-in kind, from one time to another after the start."""
    kind = next(kind for kind in KINDS if kind.query.name == name)
    last_s = from_s if until_s is None else until_s
    return Finding(
        name=name,
        title=name,
        severity=kind.severity,
        what="",
        weight=weight,
        sure="",
        why="",
        repair="",
        concerns=concerns,
        first_time_ns=START_NS + int(from_s * S),
        last_time_ns=START_NS + int(last_s * S),
        first_packet=None,
        command="requests",
        options=(),
    )


def story(*findings: Finding) -> list[tuple[str, int | None]]:
    """The findings in their order, each with the number of its cause."""
    return [
        (finding.name, finding.cause and finding.cause.number) for finding in told(findings, KINDS)
    ]


def test_a_slow_broker_comes_before_what_clients_gave_up_on_any_of_its_ports() -> None:
    slow = found("broker_slowed", 100, 130, broker="b:9092")
    waiting = found("unanswered", 105, 110, broker="b:9093")
    assert story(waiting, slow) == [("broker_slowed", None), ("unanswered", 1)]
    elsewhere = found("unanswered", 105, 110, broker="a:9093")
    assert story(elsewhere, slow) == [("unanswered", None), ("broker_slowed", None)]


def test_who_speaks_another_protocol_connects_often_for_that() -> None:
    wrong = found("wrong_protocol", 100, 130, client_ip="c", broker="web:8080")
    assert story(found("connection_storm", 101, 130, client_ip="c"), wrong)[1][1] == 1
    assert story(found("connection_storm", 101, 130, client_ip="d"), wrong)[1][1] is None


def test_a_killed_broker_comes_before_what_it_led_to() -> None:
    assert story(
        found("not_enough_replicas", 101, 140),
        found("rebalances", 110, 112, group_id="g"),
        found("broker_away", 100, 120, broker="b:9092"),
        found("connection_storm", 111, 130, client_id="c", group_id="g"),
    ) == [
        ("broker_away", None),
        ("not_enough_replicas", 1),
        ("rebalances", 1),
        ("connection_storm", 3),
    ]


def test_what_began_before_or_long_afterwards_has_another_cause() -> None:
    for at_s, is_effect in ((94.9, False), (95, True), (180, True), (180.1, False)):
        away = found("broker_away", 100, 120)
        numbers = dict(story(away, found("not_enough_replicas", at_s)))
        assert (numbers["not_enough_replicas"] == 1) is is_effect, at_s


def test_a_cause_is_of_the_same_broker_client_or_group() -> None:
    hangs, away = found("unanswered", broker="a:1"), found("broker_away", 1, broker="a:1")
    assert story(hangs, away) == [("unanswered", None), ("broker_away", 1)]
    for other in (found("broker_away", 1, broker="b:1"), found("broker_away", 1)):
        assert [cause for _, cause in story(hangs, other)] == [None, None]
    versions = found("refused_versions", client_id="c", client_ip="i")
    for ip, is_effect in (("i", True), ("j", False)):
        storm = found("connection_storm", client_id="c", client_ip=ip)
        assert (story(versions, storm)[1] == ("connection_storm", 1)) is is_effect


def test_stories_are_in_the_order_of_their_worst_finding_and_then_of_their_kind() -> None:
    """An effect that is worse than its cause does not come before it, but brings it forward."""
    assert story(
        found("too_large", 0),
        found("broker_away", 100, weight=1, broker="a:1"),
        found("broker_away", 500, weight=2, broker="b:1"),
        found("not_enough_replicas", 101),
        found("slow_broker", 0),
    ) == [
        ("broker_away", None),
        ("broker_away", None),
        ("not_enough_replicas", 2),
        ("too_large", None),
        ("slow_broker", None),
    ]


def test_every_finding_is_told_once_whatever_the_rules() -> None:
    rules = {
        "a": (CauseRule("a", (), None), CauseRule("b", (), None)),
        "b": (CauseRule("c", (), None),),
        "c": (CauseRule("a", (), None),),
    }
    query = KINDS[0].query
    kinds = [
        KINDS[0]._replace(query=query._replace(name=name), causes=causes)
        for name, causes in rules.items()
    ]
    findings = [found("unanswered")._replace(name=name) for name in "aabbcc"]
    ordered = told(findings, kinds)
    assert sorted(finding.name for finding in ordered) == list("aabbcc")
    for number, finding in enumerate(ordered, start=1):
        assert finding.cause is None or finding.cause.number < number
    assert any(finding.cause for finding in ordered)


def test_causes_are_kinds_and_concerns_that_exist() -> None:
    names = {kind.query.name for kind in KINDS}
    concerns = {"client_id", "client_ip", "broker", "machine", "api_name", "topic", "group_id"}
    rules = [rule for kind in KINDS for rule in kind.causes]
    assert {rule.name for rule in rules} <= names
    assert {name for rule in rules for name in rule.same} <= concerns
    assert len(rules) == sum(kind.query.description.count("\ncaused by ") for kind in KINDS)
    assert cause_rules(
        "x\ncaused by a: b c\ncaused by d\ncaused by e: f if g = H\ncaused by i of j\n"
    ) == (
        CauseRule("a", ("b", "c"), None),
        CauseRule("d", (), None),
        CauseRule("e", ("f",), ("g", "H")),
        CauseRule("i", (), None, "j"),
    )


def test_what_a_standstill_made_slow_is_its_effect() -> None:
    assert story(
        found("slow_broker", 50, 120, broker="c:9092"),
        found("slow_broker", 101, 106, broker="b:9092"),
        found("broker_stood_still", 100, 106, broker="b:9092"),
        found("rebalances", 110, 130, group_id="g"),
        found("unanswered", 102, 112, broker="b:9092"),
    ) == [
        ("broker_stood_still", None),
        ("unanswered", 1),
        ("slow_broker", 1),
        ("rebalances", 1),
        ("slow_broker", None),
    ]


def test_a_standstill_explains_its_other_ports_and_writes_that_wait_for_its_copies() -> None:
    stood = found("broker_stood_still", 100, 106, broker="[::2]:9092")
    for api_name, broker, is_effect in (
        ("Fetch", "[::2]:9096", True),
        ("Fetch", "[::3]:9092", False),
        ("Metadata", "[::3]:9092", False),
        ("Produce", "[::3]:9092", True),
        ("OffsetCommit", "[::3]:9092", True),
    ):
        waits = found("unanswered", 101, 104, broker=broker, api_name=api_name)
        assert (story(stood, waits)[1] == ("unanswered", 1)) is is_effect, (api_name, broker)
    anywhere = found("unanswered", 101, 104, api_name="Fetch")
    assert story(found("broker_stood_still", 100, 106), anywhere)[1] == ("unanswered", None)


def test_what_one_request_began_long_before_its_cause_is_of_the_story() -> None:
    slow = found("slow_broker", 100, 140, broker="b:9096")
    narrow = found("narrow_link", 115, 141, broker="b:9092")
    assert story(slow, narrow) == [("narrow_link", None), ("slow_broker", 1)]


def test_what_was_there_for_long_before_its_cause_is_a_story_of_its_own() -> None:
    slow = found("slow_broker", 100, 160, broker="b:9096")
    narrow = found("narrow_link", 150, 161, broker="b:9092")
    assert story(slow, narrow) == [("slow_broker", None), ("narrow_link", None)]


def test_a_broker_that_sends_slowly_is_a_slow_follower_of_all_others() -> None:
    for concerns, api_name, cause in (
        ({"broker": "b:9092"}, "Produce", 1),
        ({"broker": "b:9092"}, "OffsetFetch", None),
        # Of one way, or a client's.
        ({"broker": "b:9092", "client_ip": "c"}, "Produce", None),
        ({"client_ip": "c"}, "Produce", None),
    ):
        narrow = found("narrow_link", 100, 140, **concerns)
        slowed = found("broker_slowed", 101, 130, broker="a:9092", api_name=api_name)
        causes = dict(story(slowed, narrow))
        assert causes == {"narrow_link": None, "broker_slowed": cause}, (concerns, api_name)
