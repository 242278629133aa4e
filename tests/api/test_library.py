"""The library returns the same rows as the commands write, with the declared columns."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from itertools import islice

import polars
import pyarrow
import pytest

import kanalyze
from kanalyze.cli.main import main
from kanalyze.export.schema import arrow_schema
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.runtime.pipeline import Analysis
from kanalyze.spec.columns import time_name, with_times
from kanalyze.spec.rows.records import RECORD_COLUMNS, VALUE_COLUMNS
from tests.cli.test_imports import modules_after
from tests.support.captures import in_turn, often, path

TABLES = {
    "requests": kanalyze.requests,
    "records": kanalyze.records,
    "connections": kanalyze.connections,
    "anomalies": kanalyze.anomalies,
}
FUNCTIONS = {**TABLES, "report": kanalyze.report, "decode": kanalyze.decode}
CAPTURES = ("admin", "basics", "controller", "errors", "old-0-8-2-2", "sasl", "snaplen")
"""Captures with secrets, credentials in records, errors, old releases, and lost data."""


@pytest.fixture
def written(capfdbinary):
    """Return a function that runs a command and returns its output."""

    def run(*arguments: str) -> bytes:
        assert main(list(arguments)) == 0
        return capfdbinary.readouterr().out

    return run


def objects(text: bytes) -> list:
    return [json.loads(line) for line in text.splitlines()]


def as_json_line(row, columns) -> dict:
    """Return a row as the object on its line of JSON Lines."""
    values = {column.name: getattr(row, column.name) for column in columns}
    for column in columns:
        if column.fields:
            values[column.name] = [item._asdict() for item in values[column.name]]
    return values


def summary(text: bytes) -> dict:
    """Return a report without the version of kanalyze."""
    report = json.loads(text)
    assert report.pop("kanalyze_version") == kanalyze.__version__
    return report


def as_json(value):
    return json.loads(json.dumps(value))


# -- the same as the commands ---------------------------------------------------------------------


@pytest.mark.few(4)
@pytest.mark.parametrize(("name", "table"), in_turn(CAPTURES, TABLES))
def test_a_table_has_the_rows_of_its_command(table, name, written):
    capture = str(path(name))
    rows = TABLES[table](capture)
    expected = objects(written(table, "--format", "jsonl", capture))
    assert [as_json_line(row, rows.columns) for row in rows] == expected
    names = [column.name for column in rows.columns]
    assert rows.to_arrow().select(names).to_pylist() == expected
    assert rows.quality is not None


@pytest.mark.parametrize("name", CAPTURES)
def test_decode_gives_the_objects_of_its_command(name, written):
    capture = str(path(name))
    assert list(kanalyze.decode(capture)) == objects(written("decode", capture))


@pytest.mark.few(1)
@pytest.mark.parametrize("name", often(CAPTURES, ("errors", "snaplen")))
def test_a_report_matches_its_command(name, written):
    capture = str(path(name))
    assert as_json(kanalyze.report(capture)) == summary(written("report", "--json", "-", capture))


@pytest.mark.parametrize("name", ["codecs", "controller", "transactions"])
def test_values_of_records_match_the_command(name, written):
    capture = str(path(name))
    rows = kanalyze.records(capture, values=True)
    expected = objects(written("records", "--values", "--format", "jsonl", capture))
    assert [as_json_line(row, rows.columns) for row in rows] == expected
    assert any(row.value for row in rows)


def test_credentials_in_records_are_hidden_like_in_the_command(written, tmp_path):
    """Unknown records in the controllers' log count as credentials."""
    topic, log = b"large-kafka_python", b"__cluster_metadata"
    capture = tmp_path / "log.pcap"
    capture.write_bytes(path("large").read_bytes().replace(topic, log))
    arguments = {"topic": log.decode(), "values": True}
    found = [row for row in kanalyze.records(capture, **arguments) if row.value_bytes is not None]
    assert {(row.value, row.value_encoding) for row in found} == {("[hidden]", "hidden")}
    command = ("records", "--values", "--topic", log.decode(), "--format", "jsonl", str(capture))
    expected = [row for row in objects(written(*command)) if row["value_bytes"] is not None]
    assert [row.value for row in found] == [row["value"] for row in expected]


def test_secrets_of_messages_are_hidden():
    found = json.dumps(list(kanalyze.decode(path("sasl"), path("admin"))))
    assert "[hidden]" in found


# Each option is tested with rows above; a few show that reports take them too.
def test_other_options_match_those_of_the_commands(written):
    capture = str(path("codecs"))
    expected = objects(written("records", "--max-records", "1", "--format", "jsonl", capture))
    found = kanalyze.records(capture, max_records=1)
    assert [as_json_line(row, found.columns) for row in found] == expected
    assert any(row.problem == "too_many_records" for row in found)
    capture = str(path("snaplen"))
    expected = objects(written("anomalies", "--kind", "lost_bytes", "--format", "jsonl", capture))
    assert [row._asdict() for row in kanalyze.anomalies(capture, kind="lost_bytes")] == expected


def test_definitions_are_read_by_every_function(tmp_path):
    (tmp_path / "VendorRequest.json").write_text(
        '{"apiKey": 5000, "type": "request", "name": "VendorRequest", "validVersions": "0",'
        ' "flexibleVersions": "none", "fields": []}'
    )
    (tmp_path / "VendorResponse.json").write_text(
        '{"apiKey": 5000, "type": "response", "name": "VendorResponse", "validVersions": "0",'
        ' "flexibleVersions": "none", "fields": []}'
    )
    assert Catalog(str(tmp_path)).api(5000) is not None
    for name, function in FUNCTIONS.items():
        plain, with_definitions = (
            function(path("any"), **arguments) for arguments in ({}, {"definitions": tmp_path})
        )
        assert list(plain) == list(with_definitions), name
    assert list(kanalyze.decode(path("any"), definitions=tmp_path, api="Vendor")) == []


# -- reading --------------------------------------------------------------------------------------


def test_captures_are_not_read_before_the_first_iteration(tmp_path):
    capture = tmp_path / "later.pcap"
    rows, messages = kanalyze.requests(capture), kanalyze.decode(capture)
    with pytest.raises(kanalyze.CaptureError, match=r"later\.pcap: no such file$"):
        list(rows)
    capture.write_bytes(path("any").read_bytes())
    assert len(list(rows)) == len(list(rows)) == len(list(messages)) > 0


def test_each_row_is_returned_before_the_next_is_read(monkeypatch):
    """Rows are not collected first: the first batch needs only the first block."""
    read_numbers = []
    read_blocks = Analysis.exchange_blocks

    def counting_blocks(self, *note, **options):
        for exchanges, block in read_blocks(self, *note, **options):
            for number in range(len(exchanges)):
                read_numbers.append(number)
                yield exchanges[number : number + 1], block.part(number, number + 1)

    monkeypatch.setattr(Analysis, "exchange_blocks", counting_blocks)
    assert len(list(islice(kanalyze.decode(path("basics")), 3))) == 3
    assert len(read_numbers) == 3
    read_numbers.clear()
    assert next(iter(kanalyze.records(path("basics"), api="Produce"))).api_name == "Produce"
    assert len(read_numbers) == 1


def test_bytes_of_messages_are_released_after_decoding(monkeypatch):
    all_exchanges = []
    read_blocks = Analysis.exchange_blocks

    def counting_blocks(self):
        for exchanges, block in read_blocks(self):
            all_exchanges.extend(exchanges)
            yield exchanges, block

    monkeypatch.setattr(Analysis, "exchange_blocks", counting_blocks)
    assert len(list(kanalyze.decode(path("basics")))) == len(all_exchanges)
    messages = [
        message
        for exchange in all_exchanges
        for message in (exchange.request, exchange.response)
        if message is not None
    ]
    assert {message.data for message in messages} == {None}


def test_closing_the_iterator_closes_the_analysis(monkeypatch):
    closed = []

    def close(self):
        closed.append(self)

    monkeypatch.setattr(Analysis, "close", close)
    rows = iter(kanalyze.requests(path("basics")))
    assert next(rows)
    assert not closed
    rows.close()
    assert len(closed) == 1


def test_a_report_by_several_processes_matches_one_process():
    captures = [path("basics"), path("groups")]
    assert kanalyze.report(captures, jobs=2) == kanalyze.report(captures)


# -- tables of other libraries --------------------------------------------------------------------


@pytest.fixture(params=TABLES, scope="module")
def rows(request):
    arguments = {"values": True} if request.param == "records" else {}
    return TABLES[request.param](path("errors"), path("codecs"), path("snaplen"), **arguments)


def test_arrow_has_the_declared_types(rows):
    table = rows.to_arrow()
    assert table.num_rows > 0
    assert table.schema.equals(arrow_schema(with_times(rows.columns)), check_metadata=True)
    table.validate(full=True)


def test_batches_together_are_the_table(rows):
    batches = list(rows.to_batches())
    assert all(batch.num_rows for batch in batches)
    assert pyarrow.Table.from_batches(batches).equals(rows.to_arrow())


@pytest.mark.few(2)
def test_the_arrow_stream_interface_gives_the_table(rows):
    assert pyarrow.table(rows).equals(rows.to_arrow(), check_metadata=True)
    assert pyarrow.schema(rows).equals(rows.to_arrow().schema, check_metadata=True)
    with pyarrow.RecordBatchReader.from_stream(rows) as reader:
        assert reader.read_all().equals(rows.to_arrow())
    without_metadata = pyarrow.schema(
        [pyarrow.field(field.name, field.type) for field in pyarrow.schema(rows)]
    )
    assert pyarrow.RecordBatchReader.from_stream(rows, schema=without_metadata).schema.equals(
        without_metadata
    )


@pytest.mark.few(2)
def test_polars_has_the_declared_types(rows):
    frame = rows.to_polars()
    assert frame.equals(polars.DataFrame(rows))
    names = [column.name for column in rows.columns]
    assert frame.select(names).to_dicts() == rows.to_arrow().select(names).to_pylist()
    simple = {
        "string": polars.String,
        "bool": polars.Boolean,
        "int16": polars.Int16,
        "int32": polars.Int32,
        "int64": polars.Int64,
        "list<string>": polars.List(polars.String),
    }
    for column in rows.columns:
        kind = simple.get(column.type)
        if column.fields:
            kind = polars.List(
                polars.Struct({field.name: simple[field.type] for field in column.fields})
            )
        assert frame.schema[column.name] == kind
        if column.is_time:
            times = frame[time_name(column.name)]
            assert times.dtype == polars.Datetime("ns", "UTC")
            assert times.to_physical().equals(frame[column.name], check_names=False)


def test_pandas_has_the_declared_types(rows):
    frame = rows.to_pandas()
    text = "str" if int(version("pandas").split(".")[0]) >= 3 else "object"
    for column in rows.columns:
        kind = str(frame[column.name].dtype)
        if column.type.startswith("int"):
            assert kind == ("Int64" if column.nullable else "int64"), column.name
        else:
            expected = {"bool": "boolean", "string": text}.get(column.type, "object")
            assert kind == expected, column.name
        if column.is_time:
            assert str(frame[time_name(column.name)].dtype) == "datetime64[ns, UTC]"
    plain = [column.name for column in rows.columns if not column.type.startswith("list")]
    actual_rows = frame[plain].astype(object).where(frame[plain].notna(), None).to_dict("records")
    assert actual_rows == rows.to_arrow().select(plain).to_pylist()


def test_conversions_to_columns_make_no_row_objects(monkeypatch):
    def never(*_):
        raise AssertionError

    rows = kanalyze.requests(path("basics"))
    expected = rows.to_arrow()
    monkeypatch.setattr("kanalyze.tables.columns.block.RowBlock.rows", never)
    monkeypatch.setattr("kanalyze.spec.rows.records.RecordRow._make", never)
    assert pyarrow.table(rows).equals(expected)
    assert rows.to_polars().height == len(rows.to_pandas()) == expected.num_rows
    assert kanalyze.records(path("basics"), values=True).to_arrow().num_rows > 0


def test_a_capture_without_rows_is_an_empty_table():
    rows = kanalyze.requests(path("basics"), topic="none")
    assert pyarrow.table(rows).num_rows == rows.to_polars().height == len(rows.to_pandas()) == 0
    assert pyarrow.table(rows).schema.equals(rows.to_arrow().schema)
    assert list(rows.to_batches()) == []


@pytest.mark.parametrize(
    "convert",
    [
        lambda rows: rows.to_arrow(),
        lambda rows: list(rows.to_batches()),
        lambda rows: rows.to_pandas(),
        lambda rows: rows.to_polars(),
        pyarrow.table,
        polars.DataFrame,
    ],
)
def test_a_missing_capture_raises_in_every_conversion(convert, tmp_path):
    rows = kanalyze.requests(tmp_path / "x.pcap")
    with pytest.raises(kanalyze.CaptureError, match=r"x\.pcap: no such file$"):
        convert(rows)


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_a_missing_library_is_reported_in_one_line(name, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, name, None)
    rows = kanalyze.requests(tmp_path / "nowhere.pcap")
    with pytest.raises(ModuleNotFoundError) as caught:
        getattr(rows, f"to_{name}")()
    assert str(caught.value) == f"{name} is not installed: pip install 'kanalyze[{name}]'"


def test_columns_of_values_exist_only_with_values():
    plain, with_values = (
        kanalyze.records(path("basics"), values=has_values) for has_values in (False, True)
    )
    names = {column.name for column in plain.columns}
    assert {column.name for column in with_values.columns} == names | VALUE_COLUMNS
    assert with_values.columns == RECORD_COLUMNS
    assert not names & VALUE_COLUMNS
    assert next(iter(plain)).value is None


# -- names and types ------------------------------------------------------------------------------


def test_the_public_names_are_listed_and_exist():
    assert dir(kanalyze) == sorted(dir(kanalyze)) == list(kanalyze.__all__)
    for name in kanalyze.__all__:
        assert getattr(kanalyze, name) is not None
    assert issubclass(kanalyze.DefinitionError, kanalyze.KanalyzeError)
    with pytest.raises(AttributeError, match="has no attribute 'rows'"):
        _ = kanalyze.rows


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_arguments_of_a_function_are_typed_and_documented(name):
    from kanalyze.api import options

    hints = FUNCTIONS[name].__annotations__
    assert hints["captures"] == "Captures"
    kind = hints["options"].removeprefix("Unpack[").removesuffix("]")
    assert hints["options"] == f"Unpack[{kind}]"
    options_type = getattr(options, kind)
    documentation = kanalyze.requests.__doc__ + FUNCTIONS[name].__doc__
    assert options_type.__optional_keys__
    assert not options_type.__required_keys__
    for option in options_type.__optional_keys__:
        assert f"``{option}``" in documentation, option


def test_importing_the_library_loads_no_slow_modules():
    found = modules_after("import kanalyze")
    assert {name for name in found if name.startswith("kanalyze")} == {
        "kanalyze",
        "kanalyze.version",
    }
    code = f"""\
import kanalyze
for row in kanalyze.requests({str(path("any"))!r}):
    pass
for message in kanalyze.decode({str(path("any"))!r}):
    pass
for record in kanalyze.records({str(path("any"))!r}, values=True):
    pass
"""
    assert not modules_after(code) & {"numpy", "pandas", "pyarrow", "polars"}
    code += f"kanalyze.requests({str(path('any'))!r}).to_arrow()"
    assert not modules_after(code) & {"pandas", "polars"}
