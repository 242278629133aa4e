"""Prints API x version x {request, response}: is what we decode equal to Kafka's own JSON?

    python tools/vectors/table.py

Exits with 1 when a version differs or has no vector. The tests say the same: ``pytest -v
tests/kafka/test_vectors.py`` ends with this table.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from kanalyze.kafka.schema.catalog import Catalog
from tests.support.vector_table import cells_of, compare, table
from tests.support.vectors import read_vectors


def main() -> int:
    """Print the table; return the exit status."""
    catalog = Catalog()
    outcomes = compare(read_vectors(), catalog)
    print("\n".join(table(outcomes, catalog)))
    wrong = [text for differences in outcomes.values() for text in differences]
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong or not cells_of(catalog) <= set(outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
