"""The parts of the recorder: cache, namespace, broker, sniffer, clients, truth."""
