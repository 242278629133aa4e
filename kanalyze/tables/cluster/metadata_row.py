"""The row contract of metadata: one line per broker, partition or coordinator in a response.

In: nothing. Out: :class:`MetadataEntry` and :data:`METADATA_COLUMNS`.
"""

# No "from __future__ import annotations": see kanalyze.tables.row.

from typing import Annotated

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.tables.cluster.carried import CARRIED_COLUMNS
from kanalyze.tables.row import TOPIC, TOPIC_ID, Column, Meaning, columns_of

__all__ = ["METADATA_COLUMNS", "MetadataEntry"]


class MetadataEntry(NamedTuple):
    """A broker, the leader of a partition, or a coordinator, as a response names it."""

    kind: Annotated[
        str,
        Meaning(
            "string",
            "broker, controller (named by a controller's own listener), coordinator, partition, or "
            "topic (if it has no partitions, or an error)",
        ),
    ]
    cluster_id: Annotated[str | None, Meaning("string", "broker, controller", "", True)] = None
    node_id: Annotated[
        int | None,
        Meaning("int32", "broker, controller, coordinator: its id; null for none", "", True),
    ] = None
    host: Annotated[str | None, Meaning("string", "address advertised to clients", "", True)] = None
    port: Annotated[int | None, Meaning("int32", "advertised TCP port", "", True)] = None
    rack: Annotated[str | None, Meaning("string", "broker", "", True)] = None
    is_controller: Annotated[
        bool | None,
        Meaning(
            "bool",
            "broker: whether this response names it as the controller (in KRaft clusters this may "
            "be any broker); a change of this column alone gives no line",
            "",
            True,
        ),
    ] = None
    is_fenced: Annotated[bool | None, Meaning("bool", "broker: DescribeCluster v2+", "", True)] = (
        None
    )
    key_type: Annotated[
        str | None, Meaning("string", "coordinator: group, transaction or share", "", True)
    ] = None
    key: Annotated[
        str | None,
        Meaning("string", "coordinator: the group, the transactional id, ...", "", True),
    ] = None
    topic: Annotated[str | None, TOPIC] = None
    topic_id: Annotated[str | None, TOPIC_ID] = None
    partition: Annotated[int | None, Meaning("int32", "partition index", "", True)] = None
    leader_id: Annotated[
        int | None, Meaning("int32", "partition: node id of its leader; null for none", "", True)
    ] = None
    leader_epoch: Annotated[
        int | None, Meaning("int32", "epoch of that leader; null if not given", "", True)
    ] = None
    replica_count: Annotated[
        int | None, Meaning("int32", "number of replicas; null if not given", "", True)
    ] = None
    isr_count: Annotated[
        int | None, Meaning("int32", "number of replicas in sync; null if not given", "", True)
    ] = None
    offline_count: Annotated[
        int | None, Meaning("int32", "number of replicas offline; Metadata v5+", "", True)
    ] = None
    error_code: Annotated[
        int | None, Meaning("int16", "of the topic, partition or coordinator", "", True)
    ] = None
    error_name: Annotated[str | None, Meaning("string", "its name; NONE for 0", "", True)] = None


METADATA_COLUMNS: tuple[Column, ...] = (*CARRIED_COLUMNS, *columns_of(MetadataEntry))
"""The columns copied from the request's row, and the fields of :class:`MetadataEntry`."""
