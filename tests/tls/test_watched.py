"""Estimates of requests and response times, from bursts written by hand."""

from __future__ import annotations

import pytest

from kanalyze.common.saved import make, save
from kanalyze.model.tls import TlsConnection
from kanalyze.tls.watched import RequestEstimate

MS = 1_000_000
FINISHED, TICKET, DATA = 53, 1_000, 200


def written(estimate: RequestEstimate) -> TlsConnection:
    tls = TlsConnection()
    estimate.write(tls)
    return tls


def estimate_of(*times_ms: tuple[int, int]) -> RequestEstimate:
    """A session of TLS 1.2 with requests at given times, and the delays of responses in ms."""
    estimate = RequestEstimate()
    for at_ms, took_ms in times_ms:
        estimate.client_sent(at_ms * MS, DATA, is_13=False)
        estimate.server_sent((at_ms + took_ms) * MS, is_13=False)
    return estimate


def test_a_request_with_a_response_counts_once() -> None:
    estimate = RequestEstimate()
    estimate.client_sent(1 * MS, DATA, is_13=False)
    estimate.client_sent(2 * MS, DATA, is_13=False)  # more of the request
    for at_ms in (7, 8, 9):  # a long response
        estimate.server_sent(at_ms * MS, is_13=False)
    estimate.client_sent(20 * MS, DATA, is_13=False)  # no response
    tls = written(estimate)
    assert tls.estimated_requests == 1
    assert tls.estimated_median_ns == pytest.approx(5 * MS, rel=1 / 32)


@pytest.mark.parametrize("took_ms", [1, 3, 17, 250, 30_000, 1_000_000])
def test_times_are_exact_to_one_in_32(took_ms: int) -> None:
    tls = written(estimate_of((0, took_ms)))
    assert tls.estimated_median_ns == pytest.approx(took_ms * MS, rel=1 / 32)


def test_quantiles_are_of_the_nearest_rank() -> None:
    tls = written(estimate_of(*((100 * n, 5 if n < 98 else 80) for n in range(100))))
    assert tls.estimated_requests == 100
    assert written(estimate_of((0, 10**12), (5, -1), (6, 0))).estimated_requests == 3
    none = written(RequestEstimate())
    assert (none.estimated_requests, none.estimated_median_ns, none.estimated_p99_ns) == (
        *(0, None),
        None,
    )
    assert tls.estimated_median_ns == pytest.approx(5 * MS, rel=1 / 32)
    assert tls.estimated_p99_ns == pytest.approx(80 * MS, rel=1 / 32)


def test_handshake_and_tickets_of_tls_1_3_are_not_counted() -> None:
    estimate = RequestEstimate()
    estimate.server_sent(1 * MS, is_13=True)  # its handshake
    estimate.client_sent(2 * MS, FINISHED, is_13=True)
    estimate.client_sent(3 * MS, DATA, is_13=True)
    for at_ms in (4, 5, 13):  # two tickets, and the response
        estimate.server_sent(at_ms * MS, is_13=True)
    estimate.client_sent(20 * MS, DATA, is_13=True)
    estimate.server_sent(21 * MS, is_13=True)
    tls = written(estimate)
    assert tls.estimated_requests == 2
    assert tls.estimated_p99_ns == pytest.approx(10 * MS, rel=1 / 32)


def test_a_handshake_of_another_size_ends_with_the_next_record_of_the_server() -> None:
    estimate = RequestEstimate()
    estimate.client_sent(2 * MS, 2_000, is_13=True)  # certificates and Finished in one
    estimate.server_sent(3 * MS, is_13=True)
    estimate.client_sent(4 * MS, DATA, is_13=True)
    estimate.server_sent(5 * MS, is_13=True)
    assert written(estimate).estimated_requests == 1


def test_a_wrong_state_is_refused() -> None:
    good = save(estimate_of((0, 5)))
    assert save(make(RequestEstimate, good)) == good
    for bad in ((), (2, *good[1:]), (*good[:4], b"12345678")):
        with pytest.raises(ValueError, match=r"."):
            make(RequestEstimate, bad)
