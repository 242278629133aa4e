"""The APIs of Kafka, written from the tables of facts by tools/transcribe_definitions.py.

In: nothing. Out: plain text for :mod:`kanalyze.kafka.schema.catalog`. Must not import
anything: it is loaded at every start.
"""

from __future__ import annotations

RELEASES = ("3.9", "4.0", "4.1", "4.2", "4.3", "4.4", "trunk")
"""The releases whose versions a row gives."""

APIS = """\
0 Produce 0-13 9 9 2.2 0-11 3-12 3-13 3-13 3-13 3-13 3-13 broker -
1 Fetch 0-18 12 12 2.2 0-17 4-17 4-18 4-18 4-18 4-18 4-18 broker,controller -
2 ListOffsets 0-11 6 6 2.2 0-9 1-10 1-10 1-11 1-11 1-11 1-11 broker -
3 Metadata 0-13 9 9 2.2 0-12 0-13 0-13 0-13 0-13 0-13 0-13 broker -
4 LeaderAndIsr 0-7 4 4 2.2 0-7 none none none none none none zkBroker -
5 StopReplica 0-4 2 2 2.2 0-4 none none none none none none zkBroker -
6 UpdateMetadata 0-8 6 6 2.2 0-8 none none none none none none zkBroker -
7 ControlledShutdown 0-3 3 3 2.2 0-3 none none none none none none zkBroker,controller -
8 OffsetCommit 0-10 8 8 2.2 0-9 2-9 2-10 2-10 2-10 2-10 2-10 broker 3.6:9,4.1:10
9 OffsetFetch 0-10 6 6 2.2 0-9 1-9 1-10 1-10 1-10 1-10 1-10 broker 4.1:10
10 FindCoordinator 0-6 3 3 2.2 0-6 0-6 0-6 0-6 0-6 0-6 0-6 broker -
11 JoinGroup 0-9 6 6 2.2 0-9 0-9 0-9 0-9 0-9 0-9 0-9 broker -
12 Heartbeat 0-4 4 4 2.2 0-4 0-4 0-4 0-4 0-4 0-4 0-4 broker -
13 LeaveGroup 0-5 4 4 2.2 0-5 0-5 0-5 0-5 0-5 0-5 0-5 broker -
14 SyncGroup 0-5 4 4 2.2 0-5 0-5 0-5 0-5 0-5 0-5 0-5 broker -
15 DescribeGroups 0-6 5 5 2.2 0-5 0-6 0-6 0-6 0-6 0-6 0-6 broker -
16 ListGroups 0-5 3 3 2.2 0-5 0-5 0-5 0-5 0-5 0-5 0-5 broker -
17 SaslHandshake 0-1 never never 2.2 0-1 0-1 0-1 0-1 0-1 0-1 0-1 broker,controller -
18 ApiVersions 0-5 3 3 2.2 0-4 0-4 0-4 0-4 0-4 0-5 0-5 broker,controller -
19 CreateTopics 0-7 5 5 2.2 0-7 2-7 2-7 2-7 2-7 2-7 2-7 broker,controller -
20 DeleteTopics 0-6 4 4 2.2 0-6 1-6 1-6 1-6 1-6 1-6 1-6 broker,controller -
21 DeleteRecords 0-2 2 2 2.2 0-2 0-2 0-2 0-2 0-2 0-2 0-2 broker -
22 InitProducerId 0-6 2 2 2.2 0-5 0-5 0-6 0-6 0-6 0-6 0-6 broker 4.1:6,4.2:6,4.3:6,4.4:6,trunk:6
23 OffsetForLeaderEpoch 0-4 4 4 2.2 0-4 2-4 2-4 2-4 2-4 2-4 2-4 broker -
24 AddPartitionsToTxn 0-5 3 3 2.2 0-5 0-5 0-5 0-5 0-5 0-5 0-5 broker 3.5:4
25 AddOffsetsToTxn 0-4 3 3 2.2 0-4 0-4 0-4 0-4 0-4 0-4 0-4 broker -
26 EndTxn 0-5 3 3 2.2 0-4 0-5 0-5 0-5 0-5 0-5 0-5 broker -
27 WriteTxnMarkers 0-2 1 1 2.2 0-1 1 1 1-2 1-2 1-2 1-2 broker -
28 TxnOffsetCommit 0-6 3 3 2.2 0-4 0-5 0-5 0-5 0-5 0-6 0-6 broker -
29 DescribeAcls 0-3 2 2 2.2 0-3 1-3 1-3 1-3 1-3 1-3 1-3 broker,controller -
30 CreateAcls 0-3 2 2 2.2 0-3 1-3 1-3 1-3 1-3 1-3 1-3 broker,controller -
31 DeleteAcls 0-3 2 2 2.2 0-3 1-3 1-3 1-3 1-3 1-3 1-3 broker,controller -
32 DescribeConfigs 0-4 4 4 2.2 0-4 1-4 1-4 1-4 1-4 1-4 1-4 broker,controller -
33 AlterConfigs 0-2 2 2 2.2 0-2 0-2 0-2 0-2 0-2 0-2 0-2 broker,controller -
34 AlterReplicaLogDirs 0-2 2 2 2.2 0-2 1-2 1-2 1-2 1-2 1-2 1-2 broker -
35 DescribeLogDirs 0-5 2 2 2.2 0-4 1-4 1-4 1-4 1-5 1-5 1-5 broker -
36 SaslAuthenticate 0-2 2 2 2.2 0-2 0-2 0-2 0-2 0-2 0-2 0-2 broker,controller -
37 CreatePartitions 0-3 2 2 2.2 0-3 0-3 0-3 0-3 0-3 0-3 0-3 broker,controller -
38 CreateDelegationToken 0-3 2 2 2.2 0-3 1-3 1-3 1-3 1-3 1-3 1-3 broker,controller -
39 RenewDelegationToken 0-2 2 2 2.2 0-2 1-2 1-2 1-2 1-2 1-2 1-2 broker,controller -
40 ExpireDelegationToken 0-2 2 2 2.2 0-2 1-2 1-2 1-2 1-2 1-2 1-2 broker,controller -
41 DescribeDelegationToken 0-3 2 2 2.2 0-3 1-3 1-3 1-3 1-3 1-3 1-3 broker,controller -
42 DeleteGroups 0-3 2 2 2.2 0-2 0-2 0-2 0-2 0-2 0-3 0-3 broker -
43 ElectLeaders 0-2 2 2 2.2 0-2 0-2 0-2 0-2 0-2 0-2 0-2 broker,controller -
44 IncrementalAlterConfigs 0-1 1 1 2.3 0-1 0-1 0-1 0-1 0-1 0-1 0-1 broker,controller -
45 AlterPartitionReassignments 0-1 0 0 2.4 0 0 0-1 0-1 0-1 0-1 0-1 broker,controller -
46 ListPartitionReassignments 0 0 0 2.4 0 0 0 0 0 0 0 broker,controller -
47 OffsetDelete 0 never never 2.4 0 0 0 0 0 0 0 broker -
48 DescribeClientQuotas 0-1 1 1 2.6 0-1 0-1 0-1 0-1 0-1 0-1 0-1 broker -
49 AlterClientQuotas 0-1 1 1 2.6 0-1 0-1 0-1 0-1 0-1 0-1 0-1 broker,controller -
50 DescribeUserScramCredentials 0 0 0 2.7 0 0 0 0 0 0 0 broker,controller -
51 AlterUserScramCredentials 0 0 0 2.7 0 0 0 0 0 0 0 broker,controller -
52 Vote 0-2 0 0 2.7 0-1 0-2 0-2 0-2 0-2 0-2 0-2 controller -
53 BeginQuorumEpoch 0-1 1 1 2.7 0-1 0-1 0-1 0-1 0-1 0-1 0-1 controller -
54 EndQuorumEpoch 0-1 1 1 2.7 0-1 0-1 0-1 0-1 0-1 0-1 0-1 controller -
55 DescribeQuorum 0-2 0 0 2.7 0-2 0-2 0-2 0-2 0-2 0-2 0-2 broker,controller -
56 AlterPartition 0-3 0 0 2.7 0-3 2-3 2-3 2-3 2-3 2-3 2-3 controller -
57 UpdateFeatures 0-2 0 0 2.7 0-1 0-2 0-2 0-2 0-2 0-2 0-2 broker,controller -
58 Envelope 0 0 0 2.8 0 0 0 0 0 0 0 controller -
59 FetchSnapshot 0-1 0 0 2.8 0-1 0-1 0-1 0-1 0-1 0-1 0-1 controller -
60 DescribeCluster 0-2 0 0 2.8 0-1 0-2 0-2 0-2 0-2 0-2 0-2 broker,controller -
61 DescribeProducers 0 0 0 2.8 0 0 0 0 0 0 0 broker -
62 BrokerRegistration 0-4 0 0 2.8 0-4 0-4 0-4 0-4 0-4 0-4 0-4 controller -
63 BrokerHeartbeat 0-2 0 0 2.8 0-1 0-1 0-1 0-1 0-2 0-2 0-2 controller -
64 UnregisterBroker 0 0 0 2.8 0 0 0 0 0 0 0 broker,controller -
65 DescribeTransactions 0 0 0 3.0 0 0 0 0 0 0 0 broker -
66 ListTransactions 0-2 0 0 3.0 0-1 0-1 0-2 0-2 0-2 0-2 0-2 broker -
67 AllocateProducerIds 0 0 0 3.0 0 0 0 0 0 0 0 controller -
68 ConsumerGroupHeartbeat 0-1 0 0 3.5 0 0-1 0-1 0-1 0-1 0-1 0-1 broker 3.5:0,3.6:0
69 ConsumerGroupDescribe 0-1 0 0 3.7 0 0-1 0-1 0-1 0-1 0-1 0-1 broker 3.7:0
70 ControllerRegistration 0 0 0 3.7 0 0 0 0 0 0 0 controller -
71 GetTelemetrySubscriptions 0 0 0 3.7 0 0 0 0 0 0 0 broker -
72 PushTelemetry 0 0 0 3.7 0 0 0 0 0 0 0 broker -
73 AssignReplicasToDirs 0 0 0 3.7 0 0 0 0 0 0 0 controller -
74 ListConfigResources 0-1 0 0 3.7 0 0 0-1 0-1 0-1 0-1 0-1 broker -
75 DescribeTopicPartitions 0 0 0 3.8 0 0 0 0 0 0 0 broker -
76 ShareGroupHeartbeat 0-1 0 0 3.9 0 0 1 1 1 1 1 broker 3.9:0,4.0:0
77 ShareGroupDescribe 0-1 0 0 3.9 0 0 1 1 1 1 1 broker 3.9:0,4.0:0
78 ShareFetch 0-2 0 0 3.9 0 0 1 1-2 1-2 1-2 1-2 broker 3.9:0,4.0:0
79 ShareAcknowledge 0-2 0 0 3.9 0 0 1 1-2 1-2 1-2 1-2 broker 3.9:0,4.0:0
80 AddRaftVoter 0-1 0 0 3.9 0 0 0 0-1 0-1 0-1 0-1 controller,broker -
81 RemoveRaftVoter 0 0 0 3.9 0 0 0 0 0 0 0 controller,broker -
82 UpdateRaftVoter 0 0 0 3.9 0 0 0 0 0 0 0 controller -
83 InitializeShareGroupState 0 0 0 3.9 0 0 0 0 0 0 0 broker 3.9:0,4.0:0
84 ReadShareGroupState 0 0 0 3.9 0 0 0 0 0 0 0 broker 3.9:0,4.0:0
85 WriteShareGroupState 0-1 0 0 3.9 0 0 0 0-1 0-1 0-1 0-1 broker 3.9:0,4.0:0
86 DeleteShareGroupState 0 0 0 3.9 0 0 0 0 0 0 0 broker 3.9:0,4.0:0
87 ReadShareGroupStateSummary 0-1 0 0 3.9 0 0 0 0-1 0-1 0-1 0-1 broker 3.9:0,4.0:0
88 StreamsGroupHeartbeat 0-1 0 0 4.1 - - 0 0 0 0-1 0-1 broker 4.1:0
89 StreamsGroupDescribe 0-1 0 0 4.1 - - 0 0 0 0-1 0-1 broker 4.1:0
90 DescribeShareGroupOffsets 0-1 0 0 4.1 - - 0 0-1 0-1 0-1 0-1 broker -
91 AlterShareGroupOffsets 0 0 0 4.1 - - 0 0 0 0 0 broker -
92 DeleteShareGroupOffsets 0 0 0 4.1 - - 0 0 0 0 0 broker -
93 StreamsGroupTopologyDescriptionUpdate 0 0 0 4.4 - - - - - 0 0 broker -
94 UnregisterController 0 0 0 4.4 - - - - - 0 0 broker,controller -
"""
"""A row an API, by rising key: key, name, versions, version from which requests are
flexible, version from which responses are, release it was first seen in (2.2 is the
oldest looked at), versions by release, listeners, unstable versions by release (``-``
for none)."""

SUPERSEDED = {
    (54, "request"): ("2.7",),
    (68, "request"): ("3.5", "3.6"),
    (68, "response"): ("3.5", "3.6"),
    (69, "response"): ("3.7",),
    (87, "response"): ("3.9", "4.0"),
}
"""The messages of which a version had another layout in some releases, by key and kind:
those releases."""
