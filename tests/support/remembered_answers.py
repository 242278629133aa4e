"""A cache of answers of queries on the same rows: planning the queries of a report takes 0.3 s.

For tests of code that uses answers: most report on one of a few captures, with other options for
the output. Queries on saved files are always run, because the content of files is no key here.
"""

from __future__ import annotations

import hashlib
import pickle
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from kanalyze.queries.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kanalyze.queries.files import Query


class RememberedAnswers:
    """The answers that databases of this process have given, by everything they depend on."""

    def __init__(self) -> None:
        self._answers: dict[tuple[Any, ...], bytes] = {}
        self._rows: WeakKeyDictionary[Database, Any] = WeakKeyDictionary()
        """A hash of the content of a database; None if it is not known."""
        self._methods = self._made_methods()
        self._usual = {name: getattr(Database, name) for name in self._methods}

    @contextmanager
    def repeated(self) -> Iterator[None]:
        """Let databases repeat answers that were given before on the same rows."""
        for name, method in self._methods.items():
            setattr(Database, name, method)
        try:
            yield
        finally:
            for name, usual in self._usual.items():
                setattr(Database, name, usual)

    def _made_methods(self) -> dict[str, Callable[..., Any]]:
        """Return the methods of a database that note its rows, or repeat an answer."""
        attach, create, insert, answer = (
            getattr(Database, name) for name in ("attach", "create", "insert", "answer")
        )

        def attached(database: Database, files: Sequence[str], *more: Any) -> None:
            self._rows[database] = None
            attach(database, files, *more)

        def created(database: Database, table: str, schema: pa.Schema) -> None:
            self._note(database, table.encode(), schema.serialize())
            create(database, table, schema)

        def inserted(database: Database, table: str, batch: pa.RecordBatch) -> None:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            self._note(database, table.encode(), sink.getvalue())
            insert(database, table, batch)

        def answered(
            database: Database,
            query: Query,
            parameters: Mapping[str, object],
            worst: int | None = None,
        ) -> list[dict[str, Any]]:
            taken = repr([(name, parameters[name]) for name in query.parameters])
            if query.sql.startswith("CREATE"):  # by keep(): later queries may use its table
                self._note(database, query.sql.encode(), taken.encode())
            rows = self._rows.setdefault(database, hashlib.blake2b())
            if rows is None or query.sql.startswith("CREATE"):
                return answer(database, query, parameters, worst)  # type: ignore[no-any-return]
            key = (rows.digest(), query.sql, taken, worst)
            if key not in self._answers:
                self._answers[key] = pickle.dumps(answer(database, query, parameters, worst))
            return pickle.loads(self._answers[key])  # type: ignore[no-any-return]

        return {"attach": attached, "create": created, "insert": inserted, "answer": answered}

    def _note(self, database: Database, *parts: Any) -> None:
        rows = self._rows.setdefault(database, hashlib.blake2b())
        if rows is not None:
            for part in parts:
                rows.update(part)
