"""The grammar of Kafka's wire protocol, knowing nothing of packets and connections."""
