"""The rule for each field of Kafka's messages: what replaces its content.

In: a field of a definition, and the struct that it is in. Out: its rule. This module must not see
any bytes.

Numbers, booleans, lengths and counts stay. Every other field has a rule in :data:`RULES`, by its
name. A field without a rule there, in a user's definitions or in those of a later release, is
treated by its type: a string becomes a stand-in, bytes are blanked, a UUID becomes a stand-in. So
no unknown field keeps its content. Only the words in :data:`WORDS` stay, and only in fields for
such words.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kanalyze.kafka.schema.schema_ast import Field

__all__ = ["RULES", "WORDS", "Rule", "rule_of"]


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


_DEFAULTS: Final = {
    "string": Rule.NAME,
    "bytes": Rule.BLANK,
    "uuid": Rule.UUID,
    "records": Rule.BLANK,
}

RULES: Final = {
    **dict.fromkeys(
        (
            *("ClientId", "ClientSoftwareName", "ClientSoftwareVersion", "ClusterId"),
            *("ConfigurationKeys", "CoordinatorKeys", "EntityName", "GroupId", "GroupIds", "Match"),
            *("GroupInstanceId", "Groups", "GroupsNames", "InstanceId", "Key", "Leader", "LogDir"),
            *("MemberId", "Name", "OwnerPrincipalName", "Path", "Principal", "PrincipalFilter"),
            *("PrincipalName", "ProcessId", "Rack", "RackId", "RepartitionSinkTopics"),
            *("ResourceName", "ResourceNameFilter", "SinkTopic", "SourceTopicRegex"),
            *("SourceTopics", "Stores", "SubscribedTopicNames", "SubscribedTopicRegex"),
            *("SubtopologyId", "Successors", "TokenId", "TokenRequesterPrincipalName", "Topic"),
            *("TopicName", "TopicNames", "TransactionalId", "TransactionalIdPattern"),
            *("TransactionalIds", "User", "V3AndBelowTransactionalId", "RequestedMetrics"),
        ),
        Rule.NAME,
    ),
    **dict.fromkeys(("ClientHost", "Host", "HostFilter", "HostName", "V0Host"), Rule.HOST),
    **dict.fromkeys(
        (
            *("AssignorName", "EntityType", "Feature", "GroupState", "GroupType", "Listener"),
            *("Mechanism", "Mechanisms", "OwnerPrincipalType", "PrincipalType", "ProtocolData"),
            *("ProtocolName", "ProtocolType", "ServerAssignor", "StateFilters", "StatesFilter"),
            *("TokenRequesterPrincipalType", "TransactionState", "TypesFilter"),
            *("UnknownStateFilters", "JoinGroupRequestProtocol.Name"),
            *("SupportedFeatureKey.Name", "FinalizedFeatureKey.Name", "Feature.Name"),
            *("Listener.Name", "UpdatableFeatureResult.Feature", "OpData.Key", "ValueData.Key"),
        ),
        Rule.WORD,
    ),
    **dict.fromkeys(
        (
            *("CandidateDirectoryId", "ClientInstanceId", "CordonedLogDirs", "Id"),
            *("IncarnationId", "LogDirs", "OfflineLogDirs", "ReplicaDirectoryId", "TopicId"),
            "VoterDirectoryId",
        ),
        Rule.UUID,
    ),
    **dict.fromkeys(
        (
            *("AcknowledgeErrorMessage", "BatchIndexErrorMessage", "ClientHostAddress"),
            *(
                "CommittedMetadata",
                "Documentation",
                "ErrorMessage",
                "Hmac",
                "Metrics",
            ),
            *(
                "MetadataBytes",
                "Reason",
                "RequestPrincipal",
                "Salt",
                "SaltedPassword",
                "StatusDetail",
            ),
            *("UnalignedRecords", "Value", "OffsetFetchResponsePartition.Metadata"),
            *("OffsetFetchResponsePartitions.Metadata",),
        ),
        Rule.BLANK,
    ),
    **dict.fromkeys(("MemberMetadata", "Metadata"), Rule.SUBSCRIPTION),
    **dict.fromkeys(("Assignment", "MemberAssignment"), Rule.ASSIGNMENT),
    "AuthBytes": Rule.TOKEN,
    **dict.fromkeys(("RequestData", "ResponseData"), Rule.MESSAGE),
    "Records": Rule.RECORDS,
}
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
