"""An archive as tables of Delta Lake or Apache Iceberg, beside its Parquet files.

In: the files of an archive after a run. Out: a version of each table that has these files, written
as a whole. Files are named, not copied: readers of one version find its files until a later run
replaces them.

A Delta table is the folder of the table itself (``requests/_delta_log``). Those of Iceberg are in
``iceberg/`` with a catalog in SQLite, and know their files by absolute names.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kanalyze.batch.archive.table_files import ARCHIVE_TABLES
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa
    from deltalake import DeltaTable

PARQUET: Final = "parquet"
_PACKAGES: Final = {"delta": "deltalake", "iceberg": "pyiceberg"}

_HIDDEN: Final = ("_", ".")
"""What names of files begin with that are no rows."""


def check_table_format(table_format: str, out: str) -> None:
    """Raise UsageError or ModuleNotFoundError if a folder cannot have tables in this format."""
    if table_format == PARQUET:
        return
    package = _PACKAGES[table_format]
    if importlib.util.find_spec(package) is None:
        # The command names the extra.
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    if "://" in out:
        raise UsageError(f"--table-format {table_format} needs a folder on this machine: {out}")


def publish(out: str, table_format: str) -> None:
    """Write a version of each table that has the files of the archive now."""
    root = Path(out).resolve()
    for table in ARCHIVE_TABLES:
        folder = root / table
        files = sorted(
            path
            for path in folder.rglob("*.parquet")
            if not any(part.startswith(_HIDDEN) for part in path.relative_to(folder).parts)
        )
        if files or folder.is_dir():
            _PUBLISHERS[table_format](root, table, files)


def _schema(files: Iterable[Path]) -> pa.Schema:
    """Return the columns of files, of which some may be of an earlier kanalyze with fewer."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    # The metadata of Arrow and pandas are no part of a table.
    return pa.unify_schemas([pq.read_schema(file).remove_metadata() for file in files])


def _publish_delta(root: Path, table: str, files: Sequence[Path]) -> None:
    """Add the files that a Delta table lacks, and remove those that are gone, in one commit."""
    import pyarrow as pa
    from deltalake import DeltaTable, PostCommitHookProperties, Schema
    from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

    folder = root / table
    names = {path.relative_to(folder).as_posix(): path for path in files}
    is_new = not DeltaTable.is_deltatable(str(folder))
    known = set() if is_new else _names_in(DeltaTable(folder))
    now_ms = int(time.time() * 1000)
    added = [
        AddAction(name, path.stat().st_size, _partition_of(name), now_ms, True, _stats(path))
        for name, path in names.items()
        if name not in known
    ]
    removed = [
        RemoveAction(name, True, now_ms, partition_values=_partition_of(name))
        for name in sorted(known - names.keys())
    ]
    if not added and not removed:
        return
    partitions = list(_partition_of(next(iter([*names, *known]))))
    if is_new:
        schema = _schema(files)
        for name in partitions:
            schema = schema.append(pa.field(name, pa.string()))
        create_table_with_add_actions(
            str(folder), Schema.from_arrow(schema), added, partition_by=partitions
        )
        return
    delta = DeltaTable(folder)
    if added:
        columns = {field.name for field in delta.schema().fields}
        schema = Schema.from_arrow(_schema(folder / action.path for action in added))
        if new := [field for field in schema.fields if field.name not in columns]:
            delta.alter.add_columns(new)
    # A checkpoint would be a Parquet file in the folder of rows.
    hooks = PostCommitHookProperties(create_checkpoint=False)
    delta.create_write_transaction(
        [*added, *removed],
        "append",
        delta.schema(),
        partition_by=partitions,
        post_commithook_properties=hooks,
    )


def _names_in(table: DeltaTable) -> set[str]:
    """Return the files of a Delta table, relative to its folder."""
    return set(table.get_add_actions(flatten=True)["path"].to_pylist())


def _partition_of(name: str) -> dict[str, str | None]:
    """Return what the folders of a file say, such as ``day=2026-01-31/hour=09``."""
    return {key: value for key, _, value in (part.partition("=") for part in name.split("/")[:-1])}


def _stats(path: Path) -> str:
    import pyarrow.parquet as pq

    return json.dumps({"numRecords": pq.read_metadata(path).num_rows})


def _publish_iceberg(root: Path, table: str, files: Sequence[Path]) -> None:
    """Let an Iceberg table have these files, in one transaction."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.expressions import AlwaysTrue

    # A warning for each column of texts: they have no statistics (see ParquetRows).
    logging.getLogger("pyiceberg.io.pyarrow").setLevel(logging.ERROR)
    warehouse = root / "iceberg"
    warehouse.mkdir(exist_ok=True)
    catalog = SqlCatalog(
        "kanalyze", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=f"file://{warehouse}"
    )
    catalog.create_namespace_if_not_exists("kanalyze")
    name = f"kanalyze.{table}"
    names = [f"file://{path}" for path in files]
    if not catalog.table_exists(name):
        if not files:
            return
        catalog.create_table(name, _schema(files))
    iceberg = catalog.load_table(name)
    known = set(iceberg.inspect.files()["file_path"].to_pylist())
    if known == set(names):
        return
    gone = known - set(names)
    new = [each for each in names if gone or each not in known]
    with iceberg.transaction() as transaction:
        if new:
            with transaction.update_schema() as columns:
                columns.union_by_name(_schema(Path(each.removeprefix("file://")) for each in new))
        if gone:
            transaction.delete(AlwaysTrue())
        transaction.add_files(new, check_duplicate_files=False)


_PUBLISHERS: Mapping[str, Callable[[Path, str, Sequence[Path]], None]] = {
    "delta": _publish_delta,
    "iceberg": _publish_iceberg,
}
