"""Estimates how often a client asked, and how long answers took, by the times of encrypted data.

In: records of application data of both ends, in the order in which they came. Out:
:class:`RequestEstimate`. Must not know: what is in a record.

Data of the client followed by data of the server counts as a request with its response. Who asks
again before the answer comes is counted once; the response time is from the last byte of the last
such record to the first byte of the answer.

In TLS 1.3 handshake messages look the same. Those of the client end with its Finished, which is
known by its size, or where the server sends something. The server sends tickets behind it: so the
last record before the client asks a second time is taken for the first answer.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from kanalyze.common.plain_values import fields

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.model.tls import TlsConnection

__all__ = ["RequestEstimate"]

_FINISHED_BYTES: Final = (53, 69, 85)
"""Of a record of TLS 1.3 with a Finished alone: 4, the hash (32 or 48), 1, the tag; Java pads it by
16."""
_MOST_FLIGHT_RECORDS: Final = 8
"""Of the client's handshake: certificates, proof, Finished."""
_FINE_BITS: Final = 4
"""An octave of times has sixteen classes: a time is known to 1/32."""
_LOWEST_BITS: Final = 10
_HIGHEST_BITS: Final = 42
_CLASSES: Final = (_HIGHEST_BITS - _LOWEST_BITS) << _FINE_BITS
"""From a microsecond to an hour."""


class RequestEstimate:
    """Counts bursts of one connection, seen from one end of it."""

    __slots__ = ("_first_answer_ns", "_flight", "_request_end_ns", "_times", "requests")

    def __init__(self) -> None:
        self.requests = 0
        self._request_end_ns: int | None = None
        """End of the latest record of the client that has no answer yet."""
        self._flight = 0
        """Records of the client's handshake so far; -1 behind its Finished."""
        self._first_answer_ns: int | None = None
        """Of TLS 1.3, until the client asks again: when the latest record of the server began."""
        self._times: array[int] | None = None
        """How many response times are of each class."""

    def client_sent(self, end_ns: int, body_bytes: int, *, is_13: bool) -> None:
        """Take a record of the client."""
        if is_13 and self._flight >= 0:
            self._flight += 1
            if body_bytes in _FINISHED_BYTES or self._flight > _MOST_FLIGHT_RECORDS:
                self._flight = -1
            return
        self._settle_first()
        self._request_end_ns = end_ns

    def server_sent(self, begin_ns: int, *, is_13: bool) -> None:
        """Take a record of the server."""
        if self._flight > 0:
            self._flight = -1  # which it sends nothing within
        if self._request_end_ns is None:
            return
        if is_13 and not self.requests:
            self._first_answer_ns = begin_ns
            return
        self._answer(begin_ns)

    def write(self, tls: TlsConnection) -> None:
        """Write what is known so far."""
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
        took_ns = begin_ns - self._request_end_ns
        self._request_end_ns = None
        self.requests += 1
        if self._times is None:
            self._times = array("Q", bytes(8 * _CLASSES))
        self._times[_class_of(took_ns)] += 1

    def _quantile(self, percent: int) -> int:
        """Return the middle of the class that the nearest rank is in."""
        assert self._times is not None
        rank = -(-self.requests * percent // 100)
        index = 0
        while rank > self._times[index]:
            rank -= self._times[index]
            index += 1
        return _middle_ns(index)

    def state(self) -> State:
        """Return what :meth:`from_state` takes."""
        times = None if self._times is None else self._times.tobytes()
        return self.requests, self._request_end_ns, self._flight, self._first_answer_ns, times

    @classmethod
    def from_state(cls, state: object) -> RequestEstimate:
        """Make one from a state; raises ValueError for any other value."""
        made = cls()
        values = fields(state, "nIiIY")
        made.requests, made._request_end_ns, made._flight, made._first_answer_ns, times = values
        if made._request_end_ns is None and made._first_answer_ns is not None:
            raise ValueError("an answer to nothing")
        if times is not None:
            made._times = array("Q", times)
            if len(made._times) != _CLASSES or sum(made._times) != made.requests:
                raise ValueError("other classes of times, or another sum")
        return made


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
