"""Questions of an assistant, asked by the official client."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

from kanalyze.cli.main import main
from kanalyze.errors import UsageError
from kanalyze.mcp.server import make_server
from kanalyze.mcp.workbench import PRINCIPAL_COLUMNS, Limits, Workbench, without_principals
from kanalyze.spec.filters import BY_NAMES, FILTERS
from kanalyze.spec.rows.tables import SQL_TABLES, TABLES, stored_columns
from tests.support.captures import path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

USUAL = Limits(rows=200, seconds=60)
SLOW, LOGIN = "fault-slow-broker.pcap", "sasl.pcap"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captures")
    (folder / "below").mkdir()
    shutil.copy(path("fault-slow-broker"), folder / SLOW)
    shutil.copy(path("sasl"), folder / "below" / LOGIN)
    (folder / "secret.txt").write_text("not a capture")
    outside = folder.parent / "outside.pcap"
    shutil.copy(path("basics"), outside)
    (folder / "link.pcap").symlink_to(outside)
    (folder / "loop.pcap").symlink_to(folder / "loop.pcap")
    return folder


class Assistant:
    """Asks a server in this process."""

    def __init__(self, folder: Path, limits: Limits, **options: Any) -> None:
        self._workbench = Workbench(
            [str(folder)], limits, **{"anonymizes": False, "shows_principals": False, **options}
        )
        shows = options.get("shows_principals", False)
        self._server = make_server(self._workbench, shows_principals=shows)

    def close(self) -> None:
        self._workbench.__exit__()

    def ask(self, tool: str, **arguments: Any) -> str:
        """Return the text of an answer, and raise ValueError with that of an error."""

        async def call() -> Any:
            async with Client(self._server) as client:
                return await client.call_tool(tool, arguments)

        answer = asyncio.run(call())
        text = "\n".join(part.text for part in answer.content)
        if answer.is_error:
            raise ValueError(text)
        return text

    def rows(self, query: str, *captures: str) -> list[dict[str, Any]]:
        text = self.ask("sql", query=query, captures=list(captures))
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def made() -> Any:
    made: list[Assistant] = []
    yield made
    for each in made:
        each.close()


@pytest.fixture(scope="module")
def assistant(folder: Path, made: list[Assistant]) -> Assistant:
    made.append(Assistant(folder, USUAL))
    return made[-1]


@pytest.fixture
def another(folder: Path, made: list[Assistant]) -> Callable[..., Assistant]:
    def make(limits: Limits = USUAL, **options: bool) -> Assistant:
        made.append(Assistant(folder, limits, **options))
        return made[-1]

    return make


def test_why_was_it_slow_followed_to_the_packets(assistant: Assistant) -> None:
    assert {each["name"] for each in json.loads(assistant.ask("captures"))} == {
        SLOW,
        f"below/{LOGIN}",
    }
    verdict = assistant.ask("report", captures=[SLOW]).splitlines()[0]
    assert "slower than the others" in verdict
    (finding,) = json.loads(assistant.ask("findings", captures=[SLOW]))
    broker = finding["concerns"]["broker"]
    assert broker in verdict
    slowest = assistant.rows(
        "SELECT broker_ip || ':' || broker_port AS broker, request_packet FROM requests "
        "WHERE api_name = 'Produce' ORDER BY latency_ns DESC LIMIT 1",
        SLOW,
    )
    assert slowest[0]["broker"] == broker
    packet = slowest[0]["request_packet"]
    text = assistant.ask("requests", captures=[SLOW], packet=[str(packet)], broker=[broker])
    request = json.loads(text.splitlines()[0])
    assert (request["api_name"], request["request_packet"]) == ("Produce", packet)
    text = assistant.ask("decode", captures=[SLOW], packet=[str(packet)])
    decoded = json.loads(text.splitlines()[0])
    assert decoded["requestHeader"]["requestApiKeyName"] == "PRODUCE"
    assert "recordsSizeInBytes" in text


def test_the_command_speaks_on_its_standard_streams(folder: Path) -> None:
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "kanalyze", "mcp", "--max-rows", "3", str(folder)]
    )

    async def ask() -> tuple[Any, Any, Any]:
        async with Client(command) as client:
            tools = await client.list_tools()
            schema = await client.read_resource("kanalyze://schema")
            findings = await client.read_resource("kanalyze://findings")
            return tools, schema.contents[0].text, findings.contents[0].text

    tools, schema, findings = asyncio.run(ask())
    filters = {tool.name: set(tool.input_schema["properties"]) for tool in tools.tools}
    assert filters["report"] == filters["requests"] == {"captures", *FILTERS} - {*BY_NAMES}
    assert json.loads(schema).keys() == SQL_TABLES.keys()
    assert "slow_broker" in {kind["name"] for kind in json.loads(findings)}


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "query",
    [
        "FROM read_csv('/etc/passwd')",
        "COPY requests TO '/tmp/kanalyze-stolen.csv'",
        "ATTACH '/tmp/kanalyze-stolen.duckdb'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "DROP TABLE requests",
        "--query=top_producers",
        "-o/tmp/kanalyze-stolen.csv",
        "FROM records",
    ],
)
def test_a_query_reads_the_tables_and_nothing_else(assistant: Assistant, query: str) -> None:
    with pytest.raises(ValueError, match="kanalyze: "):
        assistant.rows(query, SLOW)
    assert assistant.rows("SELECT count(*) AS n FROM requests", SLOW) == [{"n": 356}]


@pytest.mark.parametrize("name", ["../outside.pcap", "link.pcap", "secret.txt", "", "/etc/passwd"])
def test_only_captures_in_the_folders_are_read(assistant: Assistant, name: str) -> None:
    with pytest.raises(ValueError, match="no capture"):
        assistant.ask("report", captures=[name])


def test_a_wrong_filter_is_said_in_a_line(assistant: Assistant) -> None:
    with pytest.raises(ValueError, match="unknown API"):
        assistant.ask("requests", captures=[SLOW], api=["Prodce"])
    with pytest.raises(ValueError, match="unknown API"):
        assistant.ask("requests", captures=[SLOW], api=["--output=/tmp/kanalyze-stolen"])


def test_an_answer_is_bounded(another: Callable[..., Assistant]) -> None:
    few = another(Limits(rows=5, seconds=60, characters=500))
    lines = few.ask("sql", query="FROM range(1000)", captures=[SLOW]).splitlines()
    assert len(lines) == 6
    assert lines[-1].startswith("... there is more")
    text = few.ask("sql", query="SELECT repeat('x', 1000000)", captures=[SLOW])
    assert len(text) < 600


def test_a_query_that_takes_too_long_ends(another: Callable[..., Assistant]) -> None:
    hasty = another(Limits(rows=5, seconds=3))
    with pytest.raises(ValueError, match="took more than 3 s"):
        hasty.rows("SELECT count(*) FROM range(1000000000) a, range(1000000000) b", SLOW)


def test_names_of_users_are_hidden_unless_allowed(
    assistant: Assistant, another: Callable[..., Assistant]
) -> None:
    query = "SELECT DISTINCT principal FROM requests WHERE principal IS NOT NULL"
    names = {
        row["principal"] for row in another(shows_principals=True).rows(query, f"below/{LOGIN}")
    }
    assert names
    assert assistant.rows(query, f"below/{LOGIN}") == []
    for tool in ("report", "findings", "requests", "decode"):
        answer = assistant.ask(tool, captures=[f"below/{LOGIN}"])
        assert not [name for name in names if f'"{name}"' in answer]


def test_all_columns_with_principals_are_known() -> None:
    columns = {column.name for table in TABLES for column in stored_columns(table)}
    of_users = ("principal", "client_certificate_subject")
    assert {name for name in columns if name.endswith(of_users)} == set(PRINCIPAL_COLUMNS)


def test_users_in_messages_are_hidden() -> None:
    line = '{"request": {"users": [{"name": "kim", "user": "kim"}], "ownerPrincipalName": "kim"}}'
    assert json.loads(without_principals(line)) == {
        "request": {"users": [{"name": "kim", "user": "hidden"}], "ownerPrincipalName": "hidden"}
    }


def test_anonymous_captures_have_other_names(
    assistant: Assistant, another: Callable[..., Assistant]
) -> None:
    anonymous = another(anonymizes=True)
    query = "SELECT DISTINCT client_id, client_ip FROM requests ORDER BY ALL"
    named = assistant.rows(query, SLOW)
    hidden = anonymous.rows(query, SLOW)
    assert len(hidden) == len(named)
    assert not {row["client_id"] for row in hidden} & {row["client_id"] for row in named}


def test_answers_have_names_of_addresses(
    folder: Path, made: list[Assistant], tmp_path: Path
) -> None:
    (tmp_path / "names.csv").write_text("address,name,app\n127.0.0.0/8,here,shop\n")
    names = [str(tmp_path / "names.csv")]
    named = Assistant(folder, USUAL, names=names)
    made.append(named)
    (line,) = named.rows("SELECT client_name, count(*) AS n FROM requests GROUP BY 1", SLOW)
    assert line == {"client_name": "here", "n": 356}
    lines = named.ask("requests", captures=[SLOW], client_app=["shop"]).splitlines()
    assert json.loads(lines[0])["client_app"] == "shop"
    assert "here" in named.ask("report", captures=[SLOW])
    assert "no requests match" in named.ask("decode", captures=[SLOW], client_app=["other"])
    with pytest.raises(UsageError, match="--anonymous replaces the addresses that --names names"):
        Assistant(folder, USUAL, names=names, anonymizes=True)
    with pytest.raises(UsageError, match="missing: No such file"):
        Assistant(folder, USUAL, names=["missing"])


def test_a_capture_that_has_changed_is_read_again(tmp_path: Path, made: list[Assistant]) -> None:
    capture = tmp_path / "a.pcap"
    shutil.copy(path("fault-slow-broker"), capture)
    made.append(Assistant(tmp_path, USUAL))
    count = "SELECT count(*) AS n FROM requests"
    assert made[-1].rows(count) == [{"n": 356}]
    shutil.copy(path("basics"), capture)
    assert made[-1].rows(count) == [{"n": 309}]


def test_a_folder_that_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", str(tmp_path / "missing")]) == 2
    assert capsys.readouterr().err == f"kanalyze: {tmp_path / 'missing'}: not a folder\n"
