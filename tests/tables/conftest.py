"""The modules that make rows, compiled and as plain Python."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.common import int_columns
from kanalyze.tables.columns import block, buffers
from kanalyze.tables.requests import extract, row_assembler, row_columns
from tests.support.uncompiled import uncompiled

if TYPE_CHECKING:
    from types import ModuleType

_MODULES = (
    *("columns.block", "columns.buffers"),
    *("requests.extract", "requests.row_assembler", "requests.row_columns"),
)
_EXCHANGE = (
    *("api_key", "api_version", "client_id", "correlation", "key", "key_version", "lost_ns"),
    *("malformed", "one_way", "peers", "previous_ns", "wire"),
)
_MESSAGE = (
    *(
        "start_ns",
        "start_packet",
        "last_ns",
        "last_packet",
        "length",
        "read_as",
        "encoded_fields",
        "values",
    ),
    "stream_offset",
)
_BESIDES = ("kanalyze.tables.columns.block",)


def _named(modules: dict[str, ModuleType]) -> SimpleNamespace:
    own = {name.partition(".")[2]: modules[f"kanalyze.tables.{name}"] for name in _MODULES}
    values = modules["kanalyze.kafka.codec.values"]
    return SimpleNamespace(
        **own,
        int_columns=modules["kanalyze.common.int_columns"],
        given=lambda exchange: _uncompiled(exchange, values),
    )


def _uncompiled(exchange: Any, values: Any) -> Any:
    """Return an exchange whose bodies are on tapes that uncompiled modules can read."""
    made = SimpleNamespace(**{name: getattr(exchange, name) for name in _EXCHANGE})
    made._anomalies = exchange.anomalies
    for kind in ("request", "response"):
        message = getattr(exchange, kind)
        if message is not None:
            message = SimpleNamespace(**{name: getattr(message, name) for name in _MESSAGE})
            if message.encoded_fields is not None:
                encoded = message.encoded_fields
                message.encoded_fields = values.EncodedFields.from_state(
                    encoded.state(), None, encoded.shape
                )
        setattr(made, kind, message)
        setattr(made, f"{kind}_message", partial(getattr, made, kind))
    return made


@pytest.fixture(scope="session")
def compiled() -> SimpleNamespace:
    """Return the compiled modules that make rows."""
    return SimpleNamespace(
        block=block,
        buffers=buffers,
        extract=extract,
        int_columns=int_columns,
        row_assembler=row_assembler,
        row_columns=row_columns,
        given=lambda exchange: exchange,
    )


@pytest.fixture(scope="session")
def uncompiled_rows() -> SimpleNamespace:
    """Return the same modules, uncompiled."""
    with uncompiled(*_BESIDES) as modules:
        pass
    return _named(modules)


@pytest.fixture(scope="session", params=["compiled", "uncompiled"])
def core(
    request: pytest.FixtureRequest, compiled: SimpleNamespace, uncompiled_rows: SimpleNamespace
) -> SimpleNamespace:
    """Return the modules that make rows: the compiled ones, then the uncompiled ones."""
    return compiled if request.param == "compiled" else uncompiled_rows
