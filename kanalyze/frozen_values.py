"""Values of the stages as a pickle that can do nothing but make them again.

In: values of the classes listed here, in containers. Out: bytes; and of bytes such values. This
module must not know what the values are for, nor where bytes are kept.

A pickle is a program. All that one may call here are :data:`_MAKE` and :data:`_FILL`, which make
values of the classes in :data:`_KINDS` without running their code, and two containers. None of
these, no class, and nothing that is linked and not copied can be changed by what is in the bytes.
"""

from __future__ import annotations

import functools
import gc
import importlib
import io
import pickle
from array import array
from collections import OrderedDict, deque
from contextlib import contextmanager
from enum import Enum
from types import MethodType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kanalyze.connection.kafka import KafkaConnection
from kanalyze.frozen_depth import check_depth
from kanalyze.net.closed_pairs import ClosedPairs, _Closed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kanalyze.net.limits import ReassemblyLimits
    from kanalyze.net.pairs import Pair

__all__ = ["BadBytesError", "from_bytes", "to_bytes"]

_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "model": (
        *("Anomaly", "AnomalyKind", "Chunk", "Endpoint", "Gap", "RoundTrips"),
        *("TcpConnection", "TcpMeasures"),
    ),
    "net.connection_state": ("ConnectionState",),
    "net.half_open": ("HalfOpen",),
    "net.datagram": ("Datagram", "_Piece"),
    "net.direction": ("Direction",),
    "net.duplicates": ("Duplicates",),
    "net.findings": ("Findings", "_Cut"),
    "net.fragments": ("FragmentLimits", "Fragments"),
    "net.headers": ("HeaderReader",),
    "net.idle": ("Ages",),
    "net.limits": ("ReassemblyLimits",),
    "net.meter": ("Meter",),
    "net.notes": ("NetCounters", "Notes"),
    "net.output": ("Held",),
    "net.reassembly": ("Reassembler",),
    "net.round_trips": ("RoundTripTimer", "TimedSegments"),
    "net.share": ("Share",),
    "protocol.frame": ("Frame",),
    "protocol.framing": ("FrameCutter", "_Search"),
    "protocol.kafka07": (
        *("FetchPart07", "MessageSet07", "OffsetsPart07", "Part07", "Request07", "RequestType"),
    ),
    "protocol.records": ("RecordsSummary",),
    "connection.ended": ("ConnectionCounts", "UnknownTotal"),
    "connection.evidence": ("RequestHead",),
    "connection.exchange": ("Exchange", "Message", "Peers"),
    "connection.findings": ("Findings",),
    "connection.first_bytes": ("FirstBytes",),
    "connection.held": ("HeldStream",),
    "connection.kafka": ("KafkaConnection",),
    "connection.kafka07": ("Kafka07Connection", "_Guess"),
    "connection.locate": ("ResponseLocator",),
    "connection.locate07": ("Request07Locator", "Response07Locator"),
    "connection.one_way": ("OneWayRequests",),
    "connection.pairing": ("Pairing", "_UsedIds"),
    "connection.pending": ("Pending",),
    "connection.sasl": ("RawLogin",),
    "connection.search": ("Search",),
    "connection.tracker": ("ConnectionTracker", "_Ignored", "_Kafka"),
    "connection.undecided": ("Side", "Undecided"),
    "analysis.sessions": ("FetchSessions", "Session"),
    "analysis.waits": ("LogEnds",),
}
"""The classes of what is in the bytes, by module."""
_NAMES: Final = frozenset(f"{module}.{name}" for module, names in _KINDS.items() for name in names)
_ROOT: Final = "kanalyze."
_CONTAINERS: Final = {("collections", kind.__name__): kind for kind in (OrderedDict, deque)}
_ARRAY_KINDS: Final = "bui"
"""Booleans and integers, as NumPy calls them."""


class BadBytesError(Exception):
    """Bytes that :func:`to_bytes` did not write."""


def to_bytes(value: Any, shared: Mapping[str, Any]) -> bytes:
    """Return a value as bytes.

    Args:
        value: of classes that are listed here, all that hangs on it included.
        shared: by name, attributes that are linked and not copied; those that are None are left
            out.

    Raises:
        TypeError: there is something in it that is no such value.
    """
    target = io.BytesIO()
    pickler = _Pickler(target, shared)
    with _no_collection():
        # The links come last: they are found on the way.
        pickler.dump((value, pickler.links))
    return target.getvalue()


def from_bytes(data: bytes, shared: Mapping[str, Any]) -> Any:
    """Return the value of bytes, linked to what is ``shared`` now.

    Raises:
        BadBytesError: they are not what :func:`to_bytes` wrote, as far as can be told.
    """
    try:
        with _no_collection():
            check_depth(data)
            value, links = _Unpickler(io.BytesIO(data)).load()
        for owner, name, part in links:
            _FILL(owner, {name: shared[part]})
    except _BAD_PICKLE as error:
        raise BadBytesError(f"{type(error).__name__}: {error}") from error
    return value


@contextmanager
def _no_collection() -> Iterator[None]:
    """Have nobody look for garbage meanwhile: that took two thirds of the time, and found none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


# -- into a pickle --------------------------------------------------------------------------------


class _Pickler(pickle.Pickler):
    """Writes values of :data:`_KINDS`; ``links`` are the attributes that were left out."""

    def __init__(self, target: io.BytesIO, shared: Mapping[str, Any]) -> None:
        super().__init__(target, protocol=5)
        self._shared = {id(part): name for name, part in shared.items() if part is not None}
        self.links: list[tuple[Any, str, str]] = []
        """Value, name of its attribute, and name of what is shared."""

    def reducer_override(self, value: Any) -> Any:
        """Tell how a value is made again; as :class:`pickle.Pickler` wants it."""
        kind = type(value)
        name = _name_of(kind)
        if name is not None:
            if issubclass(kind, Enum):
                return _MAKE, (name, value.value)
            if issubclass(kind, tuple):
                return _MAKE, (name, tuple(value))
            if kind is KafkaConnection:
                # Its locator asks it what waits: it has to be there before its attributes.
                return _MAKE, (name,), self._attributes(value), None, None, _FILL
            return _MAKE, (name, self._attributes(value))
        if kind is ClosedPairs:
            return _MAKE, ("closed", (value._limits, _plain_pairs(value)))
        if kind in _AS_ALWAYS or (kind is type and value in _AS_ALWAYS):
            return NotImplemented
        if kind is memoryview and type(value.obj) is bytes:
            return _MAKE, ("view", bytes(value))
        if kind is array and value.typecode == "q":
            return _MAKE, ("integers", value.tolist())
        if kind is np.ndarray and value.dtype.kind in _ARRAY_KINDS and value.ndim == 1:
            return _MAKE, ("array", (value.dtype.str, value.tobytes()))
        if kind is MethodType and value.__func__ is KafkaConnection._waiting:
            return _MAKE, ("waiting", value.__self__)
        # What is no state: a view of a batch's bytes, for instance.
        raise TypeError(f"cannot be frozen: {kind.__name__}")

    def _attributes(self, value: Any) -> dict[str, Any]:
        found = value.__getstate__()
        named, slots = found if isinstance(found, tuple) else (found, None)
        attributes = {**(named or {}), **(slots or {})}
        for name in [name for name, held in attributes.items() if id(held) in self._shared]:
            self.links.append((value, name, self._shared[id(attributes.pop(name))]))
        return attributes


def _name_of(kind: type) -> str | None:
    """Return the name that a class has in :data:`_KINDS`."""
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix(_ROOT)
    return name if name in _NAMES else None


# -- out of a pickle ------------------------------------------------------------------------------

_BAD_PICKLE: Final = (
    pickle.UnpicklingError,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What a pickle can raise that was not written by :class:`_Pickler`."""


class _Unpickler(pickle.Unpickler):
    """Reads what :class:`_Pickler` writes, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what a pickle may call."""
        found: Any = _CALLED.get((module, name)) or _CONTAINERS.get((module, name))
        if found is None:
            raise pickle.UnpicklingError(f"{module}.{name} is not for bytes to name")
        return found


def _set(value: Any, attributes: dict[str, Any]) -> None:
    for name, held in attributes.items():
        if name.startswith("__"):
            raise pickle.UnpicklingError(f"{name} is not to be set")
        setattr(value, name, held)


class _Make:
    """Makes a value by the name of its kind, with its attributes or without.

    It has no attributes itself, and none can be given to it.
    """

    __slots__ = ()

    def __call__(self, name: str, value: Any = None) -> Any:
        if name in _NAMES:
            kind = _kind(name)
            if issubclass(kind, Enum):
                return kind(value)
            if issubclass(kind, tuple):
                return kind._make(value)  # type: ignore[attr-defined]
            made = kind.__new__(kind)
            if value is not None:
                _set(made, value)
            return made
        return _OTHERS[name](value)

    def __reduce__(self) -> str:
        return "_MAKE"


class _Fill:
    """Gives a value of :data:`_KINDS` its attributes; has none itself, as :class:`_Make`."""

    __slots__ = ()

    def __call__(self, value: Any, attributes: dict[str, Any]) -> None:
        if _name_of(type(value)) is None:
            raise pickle.UnpicklingError(f"a {type(value).__name__} is not to be changed")
        _set(value, attributes)

    def __reduce__(self) -> str:
        return "_FILL"


_MAKE: Final = _Make()
_FILL: Final = _Fill()
_AS_ALWAYS: Final = (_Make, _Fill, OrderedDict, deque)
"""Pickled by their own means."""
_CALLED: Final = {(__name__, "_MAKE"): _MAKE, (__name__, "_FILL"): _FILL}


@functools.cache
def _kind(name: str) -> type:
    """Return one of the classes of :data:`_KINDS`; some are seldom needed, and loaded here."""
    module, _, own = name.rpartition(".")
    found: type = getattr(importlib.import_module(_ROOT + module), own)
    return found


def _array(value: tuple[str, bytes]) -> Any:
    text, data = value
    dtype = np.dtype(text)
    if dtype.kind not in _ARRAY_KINDS:
        raise pickle.UnpicklingError(f"no array is of {dtype}")
    return np.frombuffer(data, dtype).copy()


def _plain_pairs(pairs: ClosedPairs) -> dict[Pair, tuple[Any, ...]]:
    """Return closed pairs as plain values: there are many more of them than of anything else."""
    return {
        pair: (closed.number, closed.closed_ns, closed.sequences, closed.late)
        for pair, closed in pairs._closed.items()
    }


def _closed_pairs(value: tuple[ReassemblyLimits, dict[Pair, tuple[Any, ...]]]) -> ClosedPairs:
    limits, plain = value
    made = ClosedPairs(limits)
    for pair, (number, closed_ns, sequences, late) in plain.items():
        made._closed[pair] = closed = _Closed(number, closed_ns, sequences)
        closed.late = late
    return made


def _waiting(connection: object) -> Any:
    if not isinstance(connection, KafkaConnection):
        raise pickle.UnpicklingError("only a connection waits")
    return connection._waiting


def _view(value: object) -> memoryview:
    if not isinstance(value, bytes):
        raise pickle.UnpicklingError("a view of what is no bytes")
    return memoryview(value)


def _integers(values: Any) -> array[int]:
    return array("q", values)


_OTHERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "array": _array,
    "closed": _closed_pairs,
    "integers": _integers,
    "view": _view,
    "waiting": _waiting,
}
"""Values of other kinds, by name."""
