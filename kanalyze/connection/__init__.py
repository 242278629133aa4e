"""One Kafka connection as a state machine: detection, pairing, SASL, TLS.

In: stream updates of TCP connections. Out: exchanges. Knows neither files nor rows.
"""
