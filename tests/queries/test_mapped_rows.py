from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from kanalyze.errors import KanalyzeError
from kanalyze.queries.mapped_rows import MappedRows

SCHEMA = pa.schema(
    [
        ("text", pa.dictionary(pa.int32(), pa.string())),
        ("items", pa.list_(pa.struct([("name", pa.dictionary(pa.int32(), pa.string()))]))),
    ]
)


def batch(*words: str) -> pa.RecordBatch:
    """Return rows with words of their own in their dictionaries."""
    items = [[{"name": word}, {"name": None}] for word in words]
    texts = pa.array(words).dictionary_encode()
    return pa.RecordBatch.from_arrays([texts, pa.array(items, SCHEMA.field(1).type)], schema=SCHEMA)


def test_rows_are_those_that_were_added_whenever_they_are_read(tmp_path: Path) -> None:
    rows = MappedRows(tmp_path / "rows", SCHEMA)
    added: list[str] = []
    before = []
    for words in (["a", "b"], ["c"], [], ["a", "d", "a"]):
        rows.add(batch(*words))
        assert rows.is_changed
        added += words
        table = rows.table()
        assert table.column("text").to_pylist() == added
        assert [item[0]["name"] for item in table.column("items").to_pylist()] == added
        assert not rows.is_changed
        before.append((table, list(added)))
    rows.release()
    rows.close()
    for table, words in before:
        assert table.column("text").to_pylist() == words


def test_no_room_is_an_error_of_one_line() -> None:
    rows = MappedRows(Path("/dev/full"), SCHEMA)
    with pytest.raises(KanalyzeError, match=r"^/dev/full: .*No space left on device$"):
        rows.add(batch("a"))
