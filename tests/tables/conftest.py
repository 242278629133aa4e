"""The modules that make rows, compiled and as plain Python."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.common import int_columns
from kanalyze.tables.columns import block, buffers
from kanalyze.tables.requests import extract, row_assembler, row_columns
from tests.support.uncompiled import uncompiled

if TYPE_CHECKING:
    from types import ModuleType

    from kanalyze.kafka.session.exchange import Exchange

_MODULES = (
    *("columns.block", "columns.buffers"),
    *("requests.extract", "requests.row_assembler", "requests.row_columns"),
)
_BESIDES = ("kanalyze.tables.columns.block",)


def _named(modules: dict[str, ModuleType]) -> SimpleNamespace:
    own = {name.partition(".")[2]: modules[f"kanalyze.tables.{name}"] for name in _MODULES}
    return SimpleNamespace(
        **own,
        int_columns=modules["kanalyze.common.int_columns"],
        given=lambda exchange: _uncompiled(exchange, modules),
    )


def _uncompiled(exchange: Exchange, modules: dict[str, ModuleType]) -> Any:
    """Return an exchange whose bodies are on tapes that uncompiled modules can read."""
    kinds, values = (
        modules["kanalyze.kafka.session.exchange"],
        modules["kanalyze.kafka.codec.values"],
    )
    messages = []
    for message in (exchange.request, exchange.response):
        made = None
        if message is not None:
            end = message.end_ns, message.end_packet, message.length
            others = message.values, message.version, message.stream_offset
            made = kinds.Message.read(message.start_ns, message.start_packet, *end, *others)
            encoded = message.encoded_fields
            if encoded is not None:
                made.encoded_fields = values.EncodedFields.from_state(
                    encoded.state(), None, encoded.shape
                )
        messages.append(made)
    api = exchange.api_key, exchange.api_version, exchange.correlation_id
    made = kinds.Exchange(exchange.peers, *messages, *api, exchange.client_id)
    for name in ("anomalies", "lost_ns", "malformed", "one_way", "previous_ns", "wire"):
        setattr(made, name, getattr(exchange, name))
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
