"""Estimates number and duration of requests from the times of encrypted data.

In: records of application data of both ends, in the order in which they came. Out:
:class:`RequestEstimate`.

Data of the client followed by data of the server count as a request with its response. Requests
that a client sends before the response comes count as one. The response time is from the last byte
of the client's last record to the first byte of the response.

In TLS 1.3, handshake messages look like application data. Those of the client end with its
Finished, which is recognized by its size, or when the server sends something. After that, the
server sends session tickets. So its last record before the client's second request is taken for the
first response.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from kanalyze.common.saved import Saved
from kanalyze.model.packets import NO_TIME

if TYPE_CHECKING:
    from kanalyze.model.tls import TlsConnection

__all__ = ["RequestEstimate"]

_FINISHED_BYTES: Final = (53, 69, 85)
"""Sizes of the body of a TLS 1.3 record with only a Finished: 4 bytes, the hash (32 or 48), 1, the
tag; Java adds 16 bytes of padding."""
_MAX_FLIGHT_RECORDS: Final = 8
"""Most records of the client's handshake: certificates, CertificateVerify, Finished."""
_FINE_BITS: Final = 4
"""Each power of two is divided into sixteen classes, so a time is known to 1/32."""
_LOWEST_BITS: Final = 10
_HIGHEST_BITS: Final = 42
_CLASSES: Final = (_HIGHEST_BITS - _LOWEST_BITS) << _FINE_BITS
"""Number of classes, from a microsecond to an hour."""


class RequestEstimate:
    """Counts the requests of one connection, and its response times by class."""

    __slots__ = ("_first_answer_ns", "_flight", "_request_end_ns", "_times", "requests")
    _SAVED = Saved(
        "requests:count _request_end_ns:int? _flight:int _first_answer_ns:int? _classes:bytes?"
    )

    def __init__(self) -> None:
        self.requests = 0
        self._request_end_ns: int | None = None
        """End of the client's latest record without a response yet."""
        self._flight = 0
        """Records of the client's handshake so far; -1 after its Finished."""
        self._first_answer_ns: int | None = None
        """In TLS 1.3, until the client's second request: time of the server's latest record."""
        self._times: array[int] | None = None
        """Number of response times by class."""

    def client_sent(self, end_ns: int, body_bytes: int, *, is_13: bool) -> None:
        """Take a record of the client."""
        if is_13 and self._flight >= 0:
            self._flight += 1
            if body_bytes in _FINISHED_BYTES or self._flight > _MAX_FLIGHT_RECORDS:
                self._flight = -1
            return
        self._settle_first()
        self._request_end_ns = end_ns

    def server_sent(self, begin_ns: int, *, is_13: bool) -> None:
        """Take a record of the server."""
        if self._flight > 0:
            self._flight = -1  # the server sends nothing within the client's flight
        if self._request_end_ns is None:
            return
        if is_13 and not self.requests:
            self._first_answer_ns = begin_ns
            return
        self._answer(begin_ns)

    def write(self, tls: TlsConnection) -> None:
        """Write the estimates so far into ``tls``."""
        self._settle_first()
        tls.estimated_requests = self.requests
        if self._times is not None:
            tls.estimated_median_ns = self._quantile(50)
            tls.estimated_p99_ns = self._quantile(99)

    def _settle_first(self) -> None:
        if self._first_answer_ns is not None:
            begin_ns, self._first_answer_ns = self._first_answer_ns, None
            self._answer(begin_ns)

    def _answer(self, begin_ns: int) -> None:
        assert self._request_end_ns is not None
        end_ns, self._request_end_ns = self._request_end_ns, None
        self.requests += 1
        if NO_TIME in (begin_ns, end_ns):
            return
        if self._times is None:
            self._times = array("Q", bytes(8 * _CLASSES))
        self._times[_class_of(begin_ns - end_ns)] += 1

    def _quantile(self, percent: int) -> int:
        """Return a percentile by nearest rank: the middle of its class, in ns."""
        assert self._times is not None
        rank = -(-sum(self._times) * percent // 100)
        index = 0
        while rank > self._times[index]:
            rank -= self._times[index]
            index += 1
        return _middle_ns(index)

    def _after_load(self) -> None:
        if self._request_end_ns is None and self._first_answer_ns is not None:
            raise ValueError("an answer to nothing")
        times = self._times
        if times is not None and (len(times) != _CLASSES or sum(times) != self.requests):
            raise ValueError("other classes of times, or another sum")

    @property
    def _classes(self) -> bytes | None:
        return None if self._times is None else self._times.tobytes()

    @_classes.setter
    def _classes(self, times: bytes | None) -> None:
        self._times = None if times is None else array("Q", times)


def _class_of(took_ns: int) -> int:
    bits = took_ns.bit_length() - 1 if took_ns > 0 else 0
    if bits < _LOWEST_BITS:
        return 0
    fine = (took_ns >> (bits - _FINE_BITS)) & ((1 << _FINE_BITS) - 1)
    return min((bits - _LOWEST_BITS << _FINE_BITS) + fine, _CLASSES - 1)


def _middle_ns(index: int) -> int:
    octave, fine = index >> _FINE_BITS, index & ((1 << _FINE_BITS) - 1)
    width = 1 << (octave + _LOWEST_BITS - _FINE_BITS)
    return ((1 << _FINE_BITS) + fine) * width + width // 2
