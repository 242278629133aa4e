"""The parts of a request's time, as the terminal and the page name them.

In: nothing. Out: names.
"""

from __future__ import annotations

__all__ = ["PARTS"]

PARTS = (
    ("request_send_ns", "sending", "sending the request"),
    ("broker_network_ns", "network", "network to the broker and back"),
    ("retransmission_wait_ns", "resent", "lost packets sent again"),
    ("pipeline_wait_ns", "queued", "behind the response before"),
    ("broker_time_ns", "broker", "broker"),
    ("response_send_ns", "response", "sending the response"),
)
"""Column, title in the terminal and CSS class in the page, title in the page; in order of time."""
