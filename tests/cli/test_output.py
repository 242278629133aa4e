from __future__ import annotations

import pytest

from kanalyze.cli.output import Output, column_names, default_format
from kanalyze.errors import UsageError
from tests.support.rows import row


@pytest.mark.parametrize(
    ("destination", "expected"),
    [("-", "table"), ("a.txt", "table"), ("a.TXT", "table"), ("a.csv", "csv"), ("a.pq", "parquet")],
)
def test_the_file_extension_sets_the_format(destination, expected):
    assert default_format(destination) == expected


def test_an_unknown_file_extension_is_refused():
    with pytest.raises(UsageError, match="cannot tell the format"):
        default_format("a.xml")


def test_column_names_are_separated_by_commas():
    assert column_names(None) is None
    assert column_names(" a, b ,,c") == ["a", "b", "c"]
    assert column_names(",") == []


def test_rows_are_in_the_file_once_it_is_closed(tmp_path):
    for row_format in ("table", "csv"):
        target = tmp_path / row_format
        with Output(str(target), row_format, ["client_id"]).opened() as sink:
            sink.write([row(), row(client_id="other")])
            assert not target.exists()
        assert target.read_text().split() == ["client_id", "app", "other"]


@pytest.mark.parametrize("row_format", ["table", "csv"])
def test_a_failed_command_leaves_no_file(tmp_path, row_format):
    def fail():
        with Output(str(tmp_path / "rows"), row_format, None).opened() as sink:
            sink.write([row()])
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert list(tmp_path.iterdir()) == []
