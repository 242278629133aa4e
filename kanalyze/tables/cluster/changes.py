"""The changes to a cluster that an exchange asks for: of topics, configurations, ACLs, and so on.

In: the values of the two bodies of an exchange. Out: :class:`Change`, one for each setting. It has
no state. Secrets are in none: fields with them are not decoded, and values of configurations are
hidden as in ``decode``.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.decoding.secrets import HIDDEN, holds_password, is_secret_name
from kanalyze.kafka.schema.error_codes import error_name
from kanalyze.spec.rows.cluster import Change
from kanalyze.tables.requests.topic_names import topic_id_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kanalyze.tables.cluster.fields import FieldPaths

_Values: TypeAlias = "dict[str, Any]"
_Codes: TypeAlias = "Mapping[Any, int | None]"

IN_SYNC = "in_sync_replicas"
"""The type of resource whose requests may name topics by their ids alone."""
_MAX_CHANGES = 10_000
"""Of one request; a request for more asks for them in vain, or nobody reads a line of each."""
_LONGEST_TEXT = 1000

_ACL = ("ResourceType", "ResourceName", "Principal", "Host", "Operation", "PermissionType")
_FILTER = (
    *("ResourceTypeFilter", "ResourceNameFilter", "PatternTypeFilter", "PrincipalFilter"),
    *("HostFilter", "Operation", "PermissionType"),
)
_ENTITY = ("Entries.Entity.EntityType", "Entries.Entity.EntityName")
_LISTENERS = tuple(f"Listeners.{name}" for name in ("Name", "Host", "Port"))
_CONFIGS = tuple(f"Resources.{name}" for name in ("ResourceType", "ResourceName", "Configs.Name"))
_CONFIG_CODES = tuple(f"Responses.{name}" for name in ("ErrorCode", "ResourceType", "ResourceName"))


def _of(prefix: str, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{prefix}.{name}" for name in names)


CHANGE_FIELDS: FieldPaths = {
    19: (
        (
            *_of("Topics", ("Name", "NumPartitions", "ReplicationFactor")),
            *("Topics.Assignments.BrokerIds", "Topics.Configs.Name", "Topics.Configs.Value"),
            "validateOnly",
        ),
        _of("Topics", ("Name", "ErrorCode", "NumPartitions", "ReplicationFactor")),
    ),
    20: (
        ("Topics.Name", "Topics.TopicId", "TopicNames"),
        _of("Responses", ("Name", "TopicId", "ErrorCode")),
    ),
    21: (
        ("Topics.Name", *_of("Topics.Partitions", ("PartitionIndex", "Offset"))),
        ("Topics.Name", *_of("Topics.Partitions", ("PartitionIndex", "ErrorCode"))),
    ),
    30: ((*_of("Creations", _ACL), "Creations.ResourcePatternType"), ("Results.ErrorCode",)),
    31: (
        _of("Filters", _FILTER),
        (
            "FilterResults.ErrorCode",
            *_of("FilterResults.MatchingAcls", (*_ACL, "PatternType", "ErrorCode")),
        ),
    ),
    33: ((*_CONFIGS, "Resources.Configs.Value", "ValidateOnly"), _CONFIG_CODES),
    37: (("Topics.Name", "Topics.Count", "ValidateOnly"), ("Results.Name", "Results.ErrorCode")),
    38: (
        ("OwnerPrincipalType", "OwnerPrincipalName", "MaxLifetimeMs"),
        ("ErrorCode", "PrincipalType", "PrincipalName", "TokenId", "ExpiryTimestampMs"),
    ),
    39: (("RenewPeriodMs",), ("ErrorCode", "ExpiryTimestampMs")),
    40: (("ExpiryTimePeriodMs",), ("ErrorCode", "ExpiryTimestampMs")),
    42: (("GroupsNames",), _of("Results", ("GroupId", "ErrorCode"))),
    43: (
        ("ElectionType", "TopicPartitions.Topic", "TopicPartitions.Partitions"),
        (
            *("ErrorCode", "ReplicaElectionResults.Topic"),
            *_of("ReplicaElectionResults.PartitionResult", ("PartitionId", "ErrorCode")),
        ),
    ),
    44: (
        (*_CONFIGS, *_of("Resources.Configs", ("ConfigOperation", "Value")), "ValidateOnly"),
        _CONFIG_CODES,
    ),
    45: (
        ("Topics.Name", *_of("Topics.Partitions", ("PartitionIndex", "Replicas"))),
        (
            *("ErrorCode", "Responses.Name"),
            *_of("Responses.Partitions", ("PartitionIndex", "ErrorCode")),
        ),
    ),
    47: (
        ("GroupId", "Topics.Name", "Topics.Partitions.PartitionIndex"),
        ("ErrorCode", "Topics.Name", *_of("Topics.Partitions", ("PartitionIndex", "ErrorCode"))),
    ),
    49: (
        (*_ENTITY, *_of("Entries.Ops", ("Key", "Value", "Remove")), "ValidateOnly"),
        ("Entries.ErrorCode", *_ENTITY),
    ),
    51: (
        (
            *_of("Deletions", ("Name", "Mechanism")),
            *_of("Upsertions", ("Name", "Mechanism", "Iterations")),
        ),
        _of("Results", ("User", "ErrorCode")),
    ),
    53: (
        ("Topics.TopicName", *_of("Topics.Partitions", ("LeaderId", "LeaderEpoch"))),
        ("ErrorCode",),
    ),
    56: (
        (
            *("Topics.TopicName", "Topics.TopicId"),
            *_of("Topics.Partitions", ("PartitionIndex", "NewIsr")),
            "Topics.Partitions.NewIsrWithEpochs.BrokerId",
        ),
        (
            *("ErrorCode", "Topics.TopicName", "Topics.TopicId"),
            *_of("Topics.Partitions", ("PartitionIndex", "ErrorCode")),
        ),
    ),
    57: (
        (*_of("FeatureUpdates", ("Feature", "MaxVersionLevel")), "ValidateOnly"),
        ("ErrorCode", *_of("Results", ("Feature", "ErrorCode"))),
    ),
    62: (("BrokerId", "Rack", *_LISTENERS), ("ErrorCode",)),
    64: (("BrokerId",), ("ErrorCode",)),
    80: (("VoterId", *_LISTENERS), ("ErrorCode",)),
    81: (("VoterId",), ("ErrorCode",)),
    91: (
        (
            *("GroupId", "Topics.TopicName"),
            *_of("Topics.Partitions", ("PartitionIndex", "StartOffset")),
        ),
        (
            *("ErrorCode", "Responses.TopicName"),
            *_of("Responses.Partitions", ("PartitionIndex", "ErrorCode")),
        ),
    ),
    92: (
        ("GroupId", "Topics.TopicName"),
        ("ErrorCode", *_of("Responses", ("TopicName", "ErrorCode"))),
    ),
}
"""The fields to decode of the APIs that change something."""


def _numbered(*names: str) -> dict[int, str]:
    return dict(enumerate(names, 1))


_RESOURCES = {2: "topic", 4: "broker", 8: "broker_logger", 16: "client_metrics", 32: "group"}
"""Resources that have configurations; of any other, all values are hidden."""
_OPERATIONS = {0: "set", 1: "reset", 2: "append", 3: "subtract"}
_ACL_RESOURCES = _numbered(
    *("any", "topic", "group", "cluster", "transactional_id", "delegation_token", "user")
)
_PATTERNS = _numbered("any", "match", "literal", "prefixed")
_ACL_OPERATIONS = _numbered(
    *("any", "all", "read", "write", "create", "delete", "alter", "describe", "cluster_action"),
    *("describe_configs", "alter_configs", "idempotent_write", "create_tokens"),
    *("describe_tokens", "two_phase_commit"),
)
_PERMISSIONS = _numbered("any", "deny", "allow")
_MECHANISMS = _numbered("SCRAM-SHA-256", "SCRAM-SHA-512")
_ELECTIONS = {0: "preferred", 1: "unclean"}


def changes(api_key: int, request: _Values | None, response: _Values | None) -> list[Change]:
    """Return what an exchange asks to change, and whether it did; nothing without a request.

    A body that was not decoded is None. Raises nothing.
    """
    if request is None:
        return []
    answer = response or {}
    found = list(islice(_READERS[api_key](request, answer), _MAX_CHANGES))
    if request.get("ValidateOnly") or request.get("validateOnly"):
        found = [change._replace(is_trial=True) for change in found]
    # An error of the whole response is that of each change.
    code = answer.get("ErrorCode")
    if code:
        found = [change._replace(error_code=code, error_name=error_name(code)) for change in found]
    return found


def _change(
    what: tuple[str, str],
    resource: object,
    code: int | None,
    setting: str | None = None,
    value: object = None,
) -> Change:
    """Return a change.

    Args:
        what: what is done, and to a resource of which type.
        resource: the name of the resource.
        code: the error code; None if unknown.
        setting: what of it is changed; None for all of it.
        value: what it is after the change; None for nothing, or if unknown.
    """
    action, resource_type = what
    error = None if code is None else error_name(code)
    return Change(
        action,
        resource_type,
        None if resource is None else str(resource)[:_LONGEST_TEXT],
        setting and setting[:_LONGEST_TEXT],
        None if value is None else str(value)[:_LONGEST_TEXT],
        False,
        code,
        error,
    )


def _codes(items: Iterable[_Values] | None, *names: str) -> _Codes:
    """Return the error codes of items by their names; of one name, or a tuple of several."""
    return {
        item.get(names[0]) if len(names) == 1 else tuple(item.get(name) for name in names): item[
            "ErrorCode"
        ]
        for item in items or ()
    }


def _parts(
    request: _Values, answered: Iterable[_Values] | None, name: str = "Name"
) -> Iterator[tuple[str, int | None, _Values]]:
    """Yield each partition of a request: its topic and number, its error code, its values.

    ``answered`` are the topics of the response. The field ``name`` has the topic's name; newer
    versions of some messages have its id alone.
    """

    def named(topic: _Values) -> str:
        return topic.get(name) or topic_id_text(topic.get("TopicId") or b"") or ""

    codes = {
        (named(topic), part["PartitionIndex"]): part["ErrorCode"]
        for topic in answered or ()
        for part in topic["Partitions"]
    }
    for topic in request["Topics"]:
        for part in topic["Partitions"]:
            place = named(topic), part["PartitionIndex"]
            yield "{}-{}".format(*place), codes.get(place), part


# -- topics ---------------------------------------------------------------------------------------


def _create_topics(request: _Values, answer: _Values) -> Iterator[Change]:
    made = {topic["Name"]: topic for topic in answer.get("Topics") or ()}
    for topic in request["Topics"]:
        result = made.get(topic["Name"], {})
        what, name, code = ("create", "topic"), topic["Name"], result.get("ErrorCode")
        assigned = topic["Assignments"]
        replicas = max((len(each["BrokerIds"]) for each in assigned), default=-1)
        # -1: as brokers are configured; from version 5 on, the response has what that is.
        for setting, field, given in (
            ("partitions", "NumPartitions", len(assigned) or -1),
            ("replication_factor", "ReplicationFactor", replicas),
        ):
            numbers = (result.get(field, -1), topic[field], given)
            value = next((number for number in numbers if number > 0), None)
            yield _change(what, name, code, setting, value)
        for config in topic["Configs"]:
            yield _change(what, name, code, config["Name"], _shown(config["Name"], config["Value"]))


def _delete_topics(request: _Values, answer: _Values) -> Iterator[Change]:
    results = answer.get("Responses") or ()
    by_name, by_id = _codes(results, "Name"), _codes(results, "TopicId")
    names = {topic.get("TopicId"): topic["Name"] for topic in results}
    for name in request.get("TopicNames") or ():
        yield _change(("delete", "topic"), name, by_name.get(name))
    for topic in request.get("Topics") or ():
        if topic["Name"] is not None:
            yield _change(("delete", "topic"), topic["Name"], by_name.get(topic["Name"]))
        else:
            given = topic["TopicId"]
            name = names.get(given) or topic_id_text(given)
            yield _change(("delete", "topic"), name, by_id.get(given))


def _create_partitions(request: _Values, answer: _Values) -> Iterator[Change]:
    codes = _codes(answer.get("Results"), "Name")
    for topic in request["Topics"]:
        code = codes.get(topic["Name"])
        yield _change(("alter", "topic"), topic["Name"], code, "partitions", topic["Count"])


def _delete_records(request: _Values, answer: _Values) -> Iterator[Change]:
    for place, code, part in _parts(request, answer.get("Topics")):
        offset = None if part["Offset"] < 0 else part["Offset"]
        yield _change(("delete", "records"), place, code, "before", offset)


def _reassign(request: _Values, answer: _Values) -> Iterator[Change]:
    for place, code, part in _parts(request, answer.get("Responses")):
        replicas = part["Replicas"]
        # Without replicas, a reassignment that goes on is cancelled.
        action = "cancel" if replicas is None else "alter"
        value = None if replicas is None else ",".join(map(str, replicas))
        yield _change((action, "reassignment"), place, code, "replicas", value)


def _elect(request: _Values, answer: _Values) -> Iterator[Change]:
    codes = {
        (topic["Topic"], part["PartitionId"]): part["ErrorCode"]
        for topic in answer.get("ReplicaElectionResults") or ()
        for part in topic["PartitionResult"]
    }
    kind = request.get("ElectionType", 0)
    places = list(codes)
    if request["TopicPartitions"] is not None:
        places = [
            (topic["Topic"], part)
            for topic in request["TopicPartitions"]
            for part in topic["Partitions"]
        ]
    for place in places:
        code = codes.get(place)
        value = _ELECTIONS.get(kind, kind)
        yield _change(("elect", "leader"), "{}-{}".format(*place), code, "election", value)


# -- configurations, quotas, users, ACLs, tokens --------------------------------------------------


def _shown(name: str, value: str | None, *, is_known: bool = True) -> str | None:
    """Return the value of a configuration, or the text that stands for a secret."""
    if value is None:
        return None
    return value if is_known and not (is_secret_name(name) or holds_password(value)) else HIDDEN


def _alter_configs(request: _Values, answer: _Values) -> Iterator[Change]:
    codes = _codes(answer.get("Responses"), "ResourceType", "ResourceName")
    for resource in request["Resources"]:
        kind, name = resource["ResourceType"], resource["ResourceName"]
        for config in resource["Configs"]:
            action = _OPERATIONS.get(config.get("ConfigOperation", 0), "alter")
            value = _shown(config["Name"], config["Value"], is_known=kind in _RESOURCES)
            what = (action, f"{_RESOURCES.get(kind, kind)}_config")
            yield _change(what, name, codes.get((kind, name)), config["Name"], value)


def _alter_quotas(request: _Values, answer: _Values) -> Iterator[Change]:
    codes = {_entity(entry): entry["ErrorCode"] for entry in answer.get("Entries") or ()}
    for entry in request["Entries"]:
        entity = _entity(entry)
        for operation in entry["Ops"]:
            removed = operation["Remove"]
            value = None if removed else operation["Value"]
            what = ("delete" if removed else "set", "quota")
            yield _change(what, entity, codes.get(entity), operation["Key"], value)


def _entity(entry: _Values) -> str:
    parts = [
        f"{part['EntityType']}={'<default>' if part['EntityName'] is None else part['EntityName']}"
        for part in entry["Entity"]
    ]
    return ",".join(sorted(parts))


def _alter_users(request: _Values, answer: _Values) -> Iterator[Change]:
    codes = _codes(answer.get("Results"), "User")
    for action, users in (("delete", request["Deletions"]), ("set", request["Upsertions"])):
        for user in users:
            name = user["Name"]
            mechanism = str(_MECHANISMS.get(user["Mechanism"], user["Mechanism"]))
            value = f"{user['Iterations']} iterations" if action == "set" else None
            yield _change((action, "user"), name, codes.get(name), mechanism, value)


def _create_acls(request: _Values, answer: _Values) -> Iterator[Change]:
    results = answer.get("Results") or ()
    for number, acl in enumerate(request["Creations"]):
        # Results have no names, but the order of the request.
        code = results[number]["ErrorCode"] if number < len(results) else None
        yield _acl_change("create", acl, acl.get("ResourcePatternType", 3), code)


def _delete_acls(request: _Values, answer: _Values) -> Iterator[Change]:
    results = answer.get("FilterResults") or ()
    for number, given in enumerate(request["Filters"]):
        result = results[number] if number < len(results) else {"ErrorCode": None}
        for acl in result.get("MatchingAcls") or ():
            yield _acl_change("delete", acl, acl.get("PatternType", 3), acl["ErrorCode"])
        if not result.get("MatchingAcls"):
            asked = {name.removesuffix("Filter"): value for name, value in given.items()}
            pattern = given.get("PatternTypeFilter", 3)
            yield _acl_change("delete", asked, pattern, result["ErrorCode"])


def _acl_change(action: str, acl: _Values, pattern: int, code: int | None) -> Change:
    """Return the change of an ACL; in a filter, what may have any value is *."""
    kind, permission, operation, matched = (
        names.get(number, number)
        for names, number in (
            (_ACL_RESOURCES, acl["ResourceType"]),
            (_PERMISSIONS, acl["PermissionType"]),
            (_ACL_OPERATIONS, acl["Operation"]),
            (_PATTERNS, pattern),
        )
    )
    name = "*" if acl["ResourceName"] is None else acl["ResourceName"]
    who = acl["Principal"] or "*"
    setting = f"{who} {operation} from {acl['Host'] or '*'}"
    resource = f"{kind} {name} ({matched})"
    return _change((action, "acl"), resource, code, setting, permission)


def _create_token(request: _Values, answer: _Values) -> Iterator[Change]:
    # The owner is the requester, unless the request names another (version 3).
    kind = answer.get("PrincipalType") or request.get("OwnerPrincipalType")
    name = answer.get("PrincipalName") or request.get("OwnerPrincipalName")
    owner = f"{kind}:{name}" if kind and name else None
    token = answer.get("TokenId") or None
    yield _change(("create", "delegation_token"), owner, answer.get("ErrorCode"), "id", token)


def _token_expiry(action: str, _: _Values, answer: _Values) -> Iterator[Change]:
    expiry_ms = None if answer.get("ErrorCode") else answer.get("ExpiryTimestampMs")
    what = (action, "delegation_token")
    # Requests name a token by its HMAC, with which anyone could use it.
    yield _change(what, None, answer.get("ErrorCode"), "expiry_ms", expiry_ms)


# -- groups ---------------------------------------------------------------------------------------


def _delete_groups(request: _Values, answer: _Values) -> Iterator[Change]:
    codes = _codes(answer.get("Results"), "GroupId")
    for group in request["GroupsNames"]:
        yield _change(("delete", "group"), group, codes.get(group))


def _delete_offsets(request: _Values, answer: _Values) -> Iterator[Change]:
    for place, code, _ in _parts(request, answer.get("Topics")):
        yield _change(("delete", "offsets"), request["GroupId"], code, place)


def _alter_share_offsets(request: _Values, answer: _Values) -> Iterator[Change]:
    for place, code, part in _parts(request, answer.get("Responses"), "TopicName"):
        yield _change(("set", "offsets"), request["GroupId"], code, place, part["StartOffset"])


def _delete_share_offsets(request: _Values, answer: _Values) -> Iterator[Change]:
    codes = _codes(answer.get("Responses"), "TopicName")
    for topic in request["Topics"]:
        name = topic["TopicName"]
        yield _change(("delete", "offsets"), request["GroupId"], codes.get(name), name)


# -- the cluster ----------------------------------------------------------------------------------


def _update_features(request: _Values, answer: _Values) -> Iterator[Change]:
    # From version 2 on, all are updated or none.
    codes = _codes(answer.get("Results"), "Feature")
    for update in request["FeatureUpdates"]:
        name = update["Feature"]
        code = codes.get(name, answer.get("ErrorCode"))
        level = update["MaxVersionLevel"]
        yield _change(("set", "feature"), name, code, "version", level)


def _elect_controller(request: _Values, answer: _Values) -> Iterator[Change]:
    """Yield the leader of the metadata log, who tells each voter that it was elected."""
    for topic in request["Topics"]:
        for part in topic["Partitions"]:
            what, code = ("elect", "controller"), answer.get("ErrorCode")
            yield _change(what, part["LeaderId"], code, "epoch", part["LeaderEpoch"])


def _alter_in_sync(request: _Values, answer: _Values) -> Iterator[Change]:
    for place, code, part in _parts(request, answer.get("Topics"), "TopicName"):
        brokers = part.get("NewIsr") or [
            each["BrokerId"] for each in part.get("NewIsrWithEpochs") or ()
        ]
        value = ",".join(map(str, sorted(brokers)))
        yield _change(("set", IN_SYNC), place, code, "brokers", value)


def _register(
    resource_type: str, field: str, request: _Values, answer: _Values
) -> Iterator[Change]:
    what, name, code = ("register", resource_type), request[field], answer.get("ErrorCode")
    yield _change(what, name, code, "listeners", _listeners(request))
    if request.get("Rack") is not None:
        yield _change(what, name, code, "rack", request["Rack"])


def _unregister(
    resource_type: str, field: str, request: _Values, answer: _Values
) -> Iterator[Change]:
    yield _change(("unregister", resource_type), request[field], answer.get("ErrorCode"))


def _listeners(request: _Values) -> str:
    texts = []
    for each in request["Listeners"]:
        host = f"[{each['Host']}]" if ":" in each["Host"] else each["Host"]
        texts.append(f"{each['Name']}://{host}:{each['Port']}")
    return ",".join(texts)


_READERS: dict[int, Callable[[_Values, _Values], Iterator[Change]]] = {
    19: _create_topics,
    20: _delete_topics,
    21: _delete_records,
    30: _create_acls,
    31: _delete_acls,
    33: _alter_configs,
    37: _create_partitions,
    38: _create_token,
    39: partial(_token_expiry, "renew"),
    40: partial(_token_expiry, "expire"),
    42: _delete_groups,
    43: _elect,
    44: _alter_configs,
    45: _reassign,
    47: _delete_offsets,
    49: _alter_quotas,
    51: _alter_users,
    53: _elect_controller,
    56: _alter_in_sync,
    57: _update_features,
    62: partial(_register, "broker", "BrokerId"),
    64: partial(_unregister, "broker", "BrokerId"),
    80: partial(_register, "raft_voter", "VoterId"),
    81: partial(_unregister, "raft_voter", "VoterId"),
    91: _alter_share_offsets,
    92: _delete_share_offsets,
}
