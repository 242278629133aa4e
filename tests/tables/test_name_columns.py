"""Columns with the names of addresses, held against looking up each row by itself."""

from __future__ import annotations

import random
from itertools import product

import pytest

from kanalyze.runtime.pipeline import Analysis
from kanalyze.spec.rows.cluster import METADATA_COLUMNS
from kanalyze.spec.rows.names import NAME_COLUMNS, Names
from kanalyze.spec.rows.requests import COLUMNS, Row
from kanalyze.tables.columns.block import RowBlock
from kanalyze.tables.name_columns import NameColumns
from kanalyze.tables.names import ALWAYS_NS, AddressNames, BrokerFact, NamedAddress
from tests.support.captures import path

ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.1.0.1", "2001:db8::1", "10.9.9.9")
PORTS = (9092, 9093)


def rows(dice: random.Random, count: int) -> list[Row]:
    """Real rows, with other ends and times."""
    (some, *_) = Analysis([str(path("basics"))]).row_batches()
    ends = [f"[{ip}]" if ":" in ip else ip for ip in ADDRESSES]
    return [
        dice.choice(some)._replace(
            connection=f"{dice.choice(ends)}:{dice.randint(1, 9)}>"
            f"{dice.choice(ends)}:{dice.choice(PORTS)}",
            request_start_ns=dice.choice([None, *range(0, 60, 7)]),
        )
        for _ in range(count)
    ]


def names_by_plain_python(row: Row, names: AddressNames, facts: list[BrokerFact]) -> Names:
    client, broker = row.connection.split(">")
    ip, port = (part.rpartition(":")[at] for part, at in ((broker, 0), (broker, 2)))
    ip, time_ns = ip.strip("[]"), row.request_start_ns or 0
    found = names.of(client.rpartition(":")[0].strip("[]"), time_ns)
    known, node_id = names.at_broker(ip, int(port), facts)
    of_broker = [each for each in known if each.since_ns <= time_ns < each.until_ns]
    return Names(
        *(found[2:] if found else (None,) * 3),
        of_broker[0].name if of_broker else None,
        node_id,
        of_broker[0].zone if of_broker else None,
    )


@pytest.mark.parametrize(("seed", "has_times"), list(product(range(8), (False, True))))
def test_a_block_has_the_names_of_each_of_its_rows(seed: int, has_times: bool) -> None:
    dice = random.Random(seed)
    names = AddressNames()
    for number in range(6):
        times = sorted(dice.sample(range(60), 2)) if has_times else ALWAYS_NS
        network = dice.choice([*ADDRESSES[:-1], "10.0.0.0/16", "2001:db8::/32"])
        texts = [dice.choice([None, f"{part}{number}"]) for part in ("name", "app", "zone")]
        names.add(NamedAddress(network, *texts, *times))
    facts = [BrokerFact(n, dice.choice(ADDRESSES), dice.choice(PORTS), "r") for n in range(3)]
    columns = NameColumns(names, "request_start_ns")
    for told in ([], facts):
        lines = [dict.fromkeys(c.name for c in METADATA_COLUMNS) | f._asdict() for f in told]
        metadata = {
            column.name: RowBlock.of_rows(
                [type("Line", (), line)() for line in lines], (column,)
            ).columns[column.name]
            for column in METADATA_COLUMNS
            if column.name in BrokerFact._fields
        }
        columns.learn(RowBlock(len(lines), metadata))
        of_block = rows(dice, 40)
        block = columns.named(RowBlock.of_rows(of_block))
        found = [Names(*values) for values in zip(*block.values(NAME_COLUMNS), strict=True)]
        assert found == [names_by_plain_python(row, names, told) for row in of_block]
        assert block.rows(Row, COLUMNS) == of_block
