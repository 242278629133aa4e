"""The rule for each field of Kafka's messages, and the plan of walking a body by these rules.

In: definitions. Out: for each field what replaces its content (:class:`Rule`); for one version of a
message the plan of its fields (:func:`plan_of`). This module must not see any bytes.

Numbers, booleans, lengths and counts stay. Every other field has a rule in :data:`RULES`, by its
name. A field without a rule there, in a user's definitions or in those of a later release, is
treated by its type: a string becomes a stand-in, bytes are blanked, a UUID becomes a stand-in. So
no unknown field keeps its content. Only the words in :data:`WORDS` stay, and only in fields for
such words.

A plan is numbers: steps, each a code and its operands. Steps inside of a step follow their length.

- ``FIXED``, numbers: their size in bytes.
- ``SIZED``, content with a length: the form of the length, the rule of the content.
- ``ARRAY``: the form of the count, then the steps of an element.
- ``FIXED_ARRAY``, an array of numbers: the form of the count, the size of an element in bytes.
- ``NULLABLE``, a struct that may be null: its steps.
- ``TAGS``, a section of tagged fields: for each its tag, then its steps.
- ``ID``, 16 bytes: no operands.
"""

from __future__ import annotations

import enum
from array import array
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias

from kanalyze.kafka.schema.schema_ast import FIXED_SIZES

if TYPE_CHECKING:
    from kanalyze.kafka.schema.schema_ast import Field, Layout, Struct


class Rule(enum.Enum):
    """What replaces the content of a field; the length always stays."""

    NAME = "stand-in"
    HOST = "stand-in of a host name or of an address"
    WORD = "stays if it is one of Kafka's own words, otherwise a stand-in"
    UUID = "stand-in of an id"
    BLANK = "blanked"
    SUBSCRIPTION = "topics and rack in a consumer's metadata become stand-ins, the rest is blanked"
    ASSIGNMENT = "the topics in a consumer's assignment become stand-ins, the rest is blanked"
    TOKEN = "the user inside becomes a stand-in, the rest is blanked"  # noqa: S105 - no password
    MESSAGE = "a whole message, anonymized like any other"
    RECORDS = "keys, values and headers are blanked, the rest stays"


_CODES: Final = {rule: code for code, rule in enumerate(Rule)}
_DEFAULTS: Final = {
    "string": Rule.NAME,
    "bytes": Rule.BLANK,
    "uuid": Rule.UUID,
    "records": Rule.BLANK,
}

_FIELDS: Final = {
    Rule.NAME: """
        ClientId ClientSoftwareName ClientSoftwareVersion ClusterId ConfigurationKeys
        CoordinatorKeys EntityName GroupId GroupIds Match GroupInstanceId Groups GroupsNames
        InstanceId Key Leader LogDir MemberId Name OwnerPrincipalName Path Principal PrincipalFilter
        PrincipalName ProcessId Rack RackId RepartitionSinkTopics ResourceName ResourceNameFilter
        SinkTopic SourceTopicRegex SourceTopics Stores SubscribedTopicNames SubscribedTopicRegex
        SubtopologyId Successors TokenId TokenRequesterPrincipalName Topic TopicName TopicNames
        TransactionalId TransactionalIdPattern TransactionalIds User V3AndBelowTransactionalId
        RequestedMetrics
    """,
    Rule.HOST: "ClientHost Host HostFilter HostName V0Host",
    Rule.WORD: """
        AssignorName EntityType Feature GroupState GroupType Listener Mechanism Mechanisms
        OwnerPrincipalType PrincipalType ProtocolData ProtocolName ProtocolType ServerAssignor
        StateFilters StatesFilter TokenRequesterPrincipalType TransactionState TypesFilter
        UnknownStateFilters JoinGroupRequestProtocol.Name SupportedFeatureKey.Name
        FinalizedFeatureKey.Name Feature.Name Listener.Name UpdatableFeatureResult.Feature
        OpData.Key ValueData.Key
    """,
    Rule.UUID: """
        CandidateDirectoryId ClientInstanceId CordonedLogDirs Id IncarnationId LogDirs
        OfflineLogDirs ReplicaDirectoryId TopicId VoterDirectoryId
    """,
    Rule.BLANK: """
        AcknowledgeErrorMessage BatchIndexErrorMessage ClientHostAddress CommittedMetadata
        Documentation ErrorMessage Hmac Metrics MetadataBytes Reason RequestPrincipal Salt
        SaltedPassword StatusDetail UnalignedRecords Value OffsetFetchResponsePartition.Metadata
        OffsetFetchResponsePartitions.Metadata
    """,
    Rule.SUBSCRIPTION: "MemberMetadata Metadata",
    Rule.ASSIGNMENT: "Assignment MemberAssignment",
    Rule.TOKEN: "AuthBytes",
    Rule.MESSAGE: "RequestData ResponseData",
    Rule.RECORDS: "Records",
}
RULES: Final = {name: rule for rule, names in _FIELDS.items() for name in names.split()}
"""By the name of the field; an entry ``Struct.Field`` takes precedence."""

_TEXT_RULES: Final = frozenset((Rule.NAME, Rule.HOST, Rule.WORD, Rule.BLANK))
_BYTES_RULES: Final = frozenset(
    (Rule.BLANK, Rule.SUBSCRIPTION, Rule.ASSIGNMENT, Rule.TOKEN, Rule.MESSAGE)
)
_ALLOWED: Final = {
    "string": _TEXT_RULES,
    "bytes": _BYTES_RULES,
    "uuid": frozenset((Rule.UUID,)),
    "records": frozenset((Rule.RECORDS, Rule.BLANK)),
}


def rule_of(struct: str, field: Field) -> Rule | None:
    """Return the rule of a field in a struct; None for numbers, booleans and structs."""
    kind = field.element_type
    default = _DEFAULTS.get(kind)
    if default is None:
        return None
    rule = RULES.get(f"{struct}.{field.name}") or RULES.get(field.name, default)
    return rule if rule in _ALLOWED[kind] else default


WORDS: Final = frozenset(
    word.encode()
    for word in (
        # Protocols and assignors of groups, kinds and states of groups and transactions.
        *("consumer", "connect", "share", "streams", "classic", "range", "roundrobin", "sticky"),
        *("cooperative-sticky", "uniform", "simple", "compatible", "sessioned", "eager", "default"),
        *("Stable", "Empty", "Dead", "PreparingRebalance", "CompletingRebalance", "AwaitingSync"),
        *("Assigning", "Reconciling", "NotReady", "Unknown", "Ongoing", "PrepareCommit"),
        *("PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence"),
        # SASL mechanisms; listeners, which are often named like security protocols.
        *("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER", "AWS_MSK_IAM"),
        *("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", "CONTROLLER", "EXTERNAL", "INTERNAL"),
        # Quotas, principals, features.
        *("user", "client-id", "ip", "User", "producer_byte_rate", "consumer_byte_rate"),
        *("request_percentage", "controller_mutation_rate", "connection_creation_rate"),
        *("metadata.version", "kraft.version", "group.version", "transaction.version"),
        *("share.version", "streams.version", "eligible.leader.replicas.version"),
    )
)
"""Kafka's own words, which say nothing about its users."""


FIXED, SIZED, ARRAY, FIXED_ARRAY, NULLABLE, TAGS, ID = range(7)
SHORT, WIDE, COMPACT = range(3)
"""Forms of a length or count: 2 bytes, 4 bytes, a varint."""
Step: TypeAlias = tuple[int, ...]


def plan_of(layout: Layout) -> array[int]:
    """Return the steps of a message's body, one after the other."""
    return array("q", chain.from_iterable(_steps_of(layout, layout.message.struct)))


def _steps_of(layout: Layout, struct: Struct) -> list[Step]:
    """Return the steps of a struct; neighbouring numbers of a fixed size are one step."""
    steps: list[Step] = []
    for step in chain(*(_field(layout, struct.name, each) for each in layout.untagged(struct))):
        if step[0] == FIXED and steps and steps[-1][0] == FIXED:
            steps[-1] = (FIXED, steps[-1][1] + step[1])
        else:
            steps.append(step)
    if layout.flexible:
        tags: list[int] = []
        for field in layout.tagged(struct):
            assert field.tag is not None
            tags += _sized((field.tag,), _field(layout, struct.name, field))
        steps.append((TAGS, len(tags), *tags))
    return steps


def _sized(head: Step, inner: list[Step]) -> Step:
    """Return a head, the length of the steps inside, and these steps."""
    numbers = list(chain.from_iterable(inner))
    return *head, len(numbers), *numbers


def _field(layout: Layout, struct: str, field: Field) -> list[Step]:
    form = COMPACT if layout.is_flexible(field) else WIDE
    rule = rule_of(struct, field)
    if field.is_array:
        size = layout.fixed_element_size(field)
        has_rules = rule is not None or (
            field.struct is not None and _has_rules(layout, field.struct)
        )
        if size is not None and not has_rules:
            return [(FIXED_ARRAY, form, size)]
        if field.struct is None:
            return [_sized((ARRAY, form), [_one(layout, field, rule)])]
        return [_sized((ARRAY, form), _steps_of(layout, field.struct))]
    if field.struct is None:
        return [_one(layout, field, rule)]
    inner = _steps_of(layout, field.struct)
    return [_sized((NULLABLE,), inner)] if layout.is_nullable(field) else inner


def _one(layout: Layout, field: Field, rule: Rule | None) -> Step:
    """Return the step for one primitive: a field, or an element of an array."""
    if rule is None:
        return FIXED, FIXED_SIZES[field.element_type]
    if rule is Rule.UUID:
        return (ID,)
    form = SHORT if field.element_type == "string" else WIDE
    return SIZED, COMPACT if layout.is_flexible(field) else form, _CODES[rule]


def _has_rules(layout: Layout, struct: Struct) -> bool:
    return any(
        rule_of(struct.name, field) is not None
        or (field.struct is not None and _has_rules(layout, field.struct))
        for field in layout.untagged(struct)
    )
