"""Plans a run of a batch: which captures it reads, which checkpoint it continues, what it replaces.

In: settings, the contents of the folders, the last commit. Out: :class:`RunPlan`, or an error.
Nothing is changed here.

A folder may contain any files. A file with the name of a capture is not opened here, as there may
be many: the task that reads it reports a file that is no capture. Other files are opened.
"""

from __future__ import annotations

import re
import time
import uuid
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from kanalyze.batch.archive.segment_readers import name_in_rows
from kanalyze.batch.archive.table_files import ARCHIVE_TABLES, OPEN_TABLES
from kanalyze.batch.checkpoint import Checkpoint, CheckpointFolder
from kanalyze.batch.history import run_before
from kanalyze.batch.shared_folder import SharedFolder
from kanalyze.capture.inputs import (
    InputFile,
    MissingFileError,
    file_of,
    has_capture_name,
    is_settled,
    look_at,
    look_in_folder,
    named_files,
    nothing_named,
)
from kanalyze.capture.io.stores import Stores
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import CaptureError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kanalyze.batch.checkpoint import Cut
    from kanalyze.batch.commit import Commit, Commits
    from kanalyze.batch.history import Stretch
    from kanalyze.batch.read_plan import ReadPlan
    from kanalyze.capture.inputs import NamedFiles

__all__ = [
    "InputFile",
    "RunPlan",
    "Selection",
    "Settings",
    "captures_text",
    "find_files",
    "options_of",
    "plan_run",
    "run_of",
    "select",
]


class Selection(NamedTuple):
    """The files that exist, divided by what a run does with them."""

    new: list[InputFile]
    """Files to read."""
    changed: list[InputFile]
    """Files that were read, and have had another size for a while now."""
    unsettled: list[InputFile]
    """Files that may still be written."""


def find_files(arguments: Sequence[str], *, may_be_none: bool) -> dict[str, InputFile]:
    """Return the files that arguments name by their identities, sorted by name (2 before 10).

    Args:
        arguments: files, folders, globs, URLs of any of these.
        may_be_none: a folder or a glob may have no capture (yet).

    Raises:
        CaptureError: a file is missing, an argument names no file, or it names something that tasks
            cannot read: standard input or a pipe.
    """
    stores = Stores()
    by_identity: dict[str, InputFile] = {}
    for argument in arguments:
        named = named_files(argument, stores)
        files = list(_files(named, stores))
        if not files and not may_be_none:
            raise nothing_named(argument, named)
        for file in files:
            by_identity.setdefault(file.identity, file)
    return dict(sorted(by_identity.items(), key=_sort_key))


def _sort_key(item: tuple[str, InputFile]) -> tuple[list[tuple[int, str]], str]:
    """Return a sort key by name, with the numbers in names sorted by value (2 before 10)."""
    _, file = item
    parts = re.split(r"([0-9]+)", file.path)
    # Every second part is a number.
    key = [(int(part), "") if index % 2 else (-1, part) for index, part in enumerate(parts)]
    return key, file.path


def select(
    files: Mapping[str, InputFile], read: Mapping[str, int | None], *, now_ns: int, settle_ns: int
) -> Selection:
    """Divide files by what a run does with them.

    Args:
        files: the files that exist, by identity.
        read: the sizes of those that were read before, by identity.
        now_ns: present Unix time in ns.
        settle_ns: a file is read if it was not written to for this time.
    """
    selection = Selection([], [], [])
    for identity, file in files.items():
        if identity in read and read[identity] == file.total_bytes:
            continue
        if not is_settled(file, now_ns=now_ns, settle_ns=settle_ns):
            selection.unsettled.append(file)
        elif identity in read:
            selection.changed.append(file)
        else:
            selection.new.append(file)
    return selection


def _files(named: NamedFiles, stores: Stores) -> Iterator[InputFile]:
    for path in named.paths:
        if not named.is_folder:
            yield file_of(path, stores)
        # Tasks report files that cannot be read.
        elif has_capture_name(path) or look_in_folder(path, stores) is not None:
            yield _file_in_folder(path, stores)


def _file_in_folder(path: str, stores: Stores) -> InputFile:
    """Return a file in a folder; if a link has no target, tasks report that."""
    try:
        return file_of(path, stores)
    except MissingFileError:
        return InputFile(path, None, None)


OPEN_PREFIXES: Final = {staged: f"{table}/open-" for staged, table in OPEN_TABLES.items()}
"""Names of files with rows that the next run replaces begin with these."""
_NS_PER_S: Final = 1_000_000_000


class Settings(NamedTuple):
    """The arguments of a batch, except filters of rows."""

    paths: tuple[str, ...]
    """Files, folders, globs, URLs of any of these."""
    out: str
    """Folder or URL of the archive's rows."""
    checkpoint: str | None = None
    """Folder or URL of checkpoints; None: each run reads all captures."""
    finish: bool = False
    """With a checkpoint: read all files, and close all connections."""
    merges_small: bool = False
    """With a checkpoint: merge small files of earlier runs."""
    replace: bool = False
    """Start over, and replace all rows."""
    step_bytes: int | None = None
    """With a checkpoint: captures are committed in steps of this size; None for one that depends on
    the cores."""
    settle_s: float = 60
    """With a checkpoint: a file is read if it was not written to for this time in s."""
    follows: bool = False
    """Whether runs follow each other, so that one without new captures makes no report."""
    buckets: int | None = None
    """The number of buckets; None for one that depends on the captures and cores."""
    split_bytes: int = 64 << 20
    """Larger pcap files are read by several tasks."""


class RunPlan(NamedTuple):
    """What a run does."""

    run: int
    """Its number, from 1."""
    archive: str
    """The archive's id."""
    files: list[InputFile]
    """Captures to read."""
    changed: list[InputFile]
    """Captures that are left out: their size has changed since they were read."""
    removed: list[str]
    """Files with rows that are replaced."""
    checkpoint_folder: CheckpointFolder | None
    previous: Checkpoint | None
    """The checkpoint that the run continues."""
    is_needed: bool = True
    """False if the run would change nothing."""
    existing: Mapping[str, InputFile] = MappingProxyType({})
    """All captures that are there now, by identity."""
    rows: Sequence[str] = ()
    """The files with rows of earlier runs."""
    until_ns: int | None = None
    """It takes the packets before this time, as later captures are left for the next run."""

    @property
    def by_name(self) -> dict[str, InputFile]:
        """The captures to read, by their names in rows."""
        return {name_in_rows(file.path): file for file in self.files}

    @property
    def cut_before(self) -> Cut | None:
        """Where the run before ended, if that left captures for this one."""
        return None if self.previous is None else self.previous.cut

    @property
    def begun(self) -> Mapping[str, int]:
        """How many packets of captures the run before took, by identity."""
        return {} if self.cut_before is None else self.cut_before.taken

    @property
    def read(self) -> dict[str, int | None]:
        """The sizes of all files read so far, by identity; a changed file is reported once."""
        read_before = {} if self.previous is None else self.previous.read
        files = [*self.files, *self.changed]
        return {**read_before, **{file.identity: file.total_bytes for file in files}}

    def from_earlier(self, before: int | None) -> RunPlan | None:
        """Return the run that undoes those after ``before``, and reads their captures again.

        None if ``before`` is, or if a capture of these is gone.
        """
        previous, folder = self.previous, self.checkpoint_folder
        assert previous is not None, "there are earlier runs"
        assert folder is not None, "runs continue each other"
        if before is None or previous.is_finished:
            return None
        earlier = folder.read(before, self.archive) if before else None
        read = {} if earlier is None else earlier.read
        again = previous.read.keys() - read.keys()
        if not again <= self.existing.keys():
            return None
        again |= {file.identity for file in self.files}
        if earlier is not None and earlier.cut is not None:
            again |= earlier.cut.taken.keys()
        return self._replace(
            files=[file for identity, file in self.existing.items() if identity in again],
            changed=[file for file in self.changed if file.identity in read],
            removed=[name for name in self.rows if _is_replaced(name, before)],
            previous=earlier,
            is_needed=True,
        )


def plan_run(
    plan: ReadPlan,
    settings: Settings,
    out: SharedFolder,
    commits: Commits,
    warn: Callable[[str], None],
) -> RunPlan:
    """Plan a run; ``warn`` is called with warnings of one line.

    Raises:
        CaptureError: see :func:`find_files`.
        UsageError: the contents of the folders contradict the settings.
    """
    rows = [
        entry.name
        for table in ARCHIVE_TABLES
        for entry in out.files(table)
        if entry.name.endswith(".parquet")
    ]
    last = commits.last
    if last is None and rows:
        raise UsageError(f"{out.shown}: has rows that this command did not write: {rows[0]}")
    if settings.checkpoint is None:
        return _plan_without_checkpoint(settings, out, last, rows, warn)
    checkpoint = SharedFolder(settings.checkpoint)
    if any(f"{checkpoint.url}/".startswith(f"{out.url}/{table}/") for table in ARCHIVE_TABLES):
        raise UsageError(f"{checkpoint.shown}: is a folder of rows, and no place for a checkpoint")
    folder = CheckpointFolder(checkpoint)
    return _plan_with_checkpoint(plan, settings, out, last, rows, folder, warn)


def _plan_without_checkpoint(
    settings: Settings,
    out: SharedFolder,
    last: Commit | None,
    rows: list[str],
    warn: Callable[[str], None],
) -> RunPlan:
    """Plan a run without a checkpoint."""
    files = find_files(settings.paths, may_be_none=False)
    if last is not None and not settings.replace:
        if last.about.get("has_checkpoint"):
            raise UsageError(
                f"{out.shown}: is written with --checkpoint; --replace starts over without"
            )
        missing = set(last.about.get("captures", ())) - files.keys()
        if missing:
            raise UsageError(
                f"{out.shown}: has rows of captures that are not among these, such as "
                f"{min(missing)}; --replace does without them"
            )
    if rows:
        warn(f"{out.shown}: the rows of run {_number(last)} are replaced")
    return RunPlan(
        _number(last) + 1, uuid.uuid4().hex, list(files.values()), [], rows, None, None, rows=rows
    )


def _plan_with_checkpoint(
    plan: ReadPlan,
    settings: Settings,
    out: SharedFolder,
    last: Commit | None,
    rows: list[str],
    folder: CheckpointFolder,
    warn: Callable[[str], None],
) -> RunPlan:
    """Plan a run that continues the last one."""
    previous, archive = None, uuid.uuid4().hex
    _check_owner(out, last, folder)
    if settings.replace:
        if rows:
            warn(f"{out.shown}: the rows of {_number(last)} runs are replaced")
    elif last is not None:
        archive = _archive_of(last, out)
        previous = folder.read(last.run, archive)
        _check_options(plan, settings, previous, folder)
    files = find_files(settings.paths, may_be_none=True)
    selection = select(
        files,
        {} if previous is None else previous.read,
        now_ns=time.time_ns(),
        settle_ns=0 if settings.finish else int(settings.settle_s * _NS_PER_S),
    )
    if selection.unsettled:
        unsettled_text = captures_text(len(selection.unsettled))
        name = selection.unsettled[0].path
        warn(f"left for the next run, may still be written: {unsettled_text}, such as {name}")
    cut = None if previous is None else previous.cut
    begun = () if cut is None else cut.taken.keys() - {file.identity for file in selection.changed}
    continued = [file for identity, file in files.items() if identity in begun]
    is_finished = previous is not None and previous.is_finished
    if is_finished and selection.new:
        raise UsageError(
            f"{folder.shown}: the archive was finished before "
            f"{captures_text(len(selection.new))} came; --replace starts over"
        )
    to_finish = settings.finish and not is_finished and (previous is not None or selection.new)
    is_needed = bool(selection.new or selection.changed or to_finish or cut)
    if settings.replace and rows and not is_needed:
        raise UsageError(f"{out.shown}: --replace: there are no captures to read yet")
    run = _number(last) + 1
    last_run = 0 if previous is None else previous.run
    planned = RunPlan(
        *(run, archive, continued + selection.new, selection.changed),
        [name for name in rows if is_needed and _is_replaced(name, last_run)],
        *(folder, previous, is_needed),
        existing=files,
        rows=rows,
    )
    return _with_grown(planned, warn) if previous is not None and selection.changed else planned


def _is_replaced(name: str, last_run: int) -> bool:
    """Return true if a file has rows of open connections, or of a run after ``last_run``."""
    if name.startswith(tuple(OPEN_PREFIXES.values())):
        return True
    return run_of(name) > last_run


def run_of(name: str) -> int:
    """Return the number of the run that a file with rows is of: of those merged, the last."""
    return int(re.split(r"/(?:run|open)-", name)[-1].partition("-")[0])


def _with_grown(run: RunPlan, warn: Callable[[str], None]) -> RunPlan:
    """Return the run with captures that have grown, which are read again; warn of other changes."""
    previous = run.previous
    assert previous is not None, "they were read before"
    history = previous.history
    stores = Stores()
    stretches = []
    for file in run.changed:
        of_file = [index for index, one in enumerate(history) if file.identity in one.files]
        if of_file and _has_grown(file, history[of_file[0]], previous, stores):
            stretches.append(of_file[0])
    if stretches:
        # Each that does not go back so far that its file is read again would leave that out.
        run = run.from_earlier(run_before(history, min(stretches))) or run
    for file in run.changed:
        warn(f"{file.path}: has changed since it was read: left out")
    return run


def _has_grown(file: InputFile, stretch: Stretch, previous: Checkpoint, stores: Stores) -> bool:
    """Return true if a file begins as before, and is larger: a ring of files has new packets."""
    old_bytes, first_ns = previous.read[file.identity], stretch.files[file.identity]
    if old_bytes is None or file.total_bytes is None or file.total_bytes <= old_bytes:
        return False
    try:
        found = look_at(file.capture, stores)
    except CaptureError:
        return False
    return first_ns in (None, found.first_time_ns)


def _check_owner(out: SharedFolder, last: Commit | None, folder: CheckpointFolder) -> None:
    """Raise UsageError if the checkpoint belongs to another archive, even with ``--replace``."""
    owner = folder.owner()
    if owner is None:
        return
    archive, owner_out = owner
    # Compare the folder: the first run of the archive may not be committed, so its id is not known.
    # Compare the id too: the folder may have been moved.
    is_own = owner_out == out.url or (last is not None and archive == last.about.get("archive"))
    if not is_own:
        raise UsageError(f"{folder.shown}: is the checkpoint of another archive, {owner_out}")


def _archive_of(last: Commit, out: SharedFolder) -> str:
    """Return the archive that the rows belong to; raises UsageError if it does not grow."""
    if not last.about.get("has_checkpoint"):
        raise UsageError(f"{out.shown}: is written without --checkpoint; --replace starts over")
    return str(last.about.get("archive"))


def _check_options(
    plan: ReadPlan, settings: Settings, previous: Checkpoint, folder: CheckpointFolder
) -> None:
    """Raise UsageError if new rows would not fit the rows of earlier runs."""
    if options_of(plan) != previous.options:
        raise UsageError(
            f"{folder.shown}: the archive was begun with other filters, ports, definitions or "
            "limits; --replace starts over"
        )
    if settings.buckets not in (None, previous.buckets):
        raise UsageError(f"{folder.shown}: the archive was begun with --buckets {previous.buckets}")


_STORED_NAMES = {
    **{name: f"{name}s" for name in ("api", "client_id", "client_ip", "broker", "port")},
    **{name: f"{name}s" for name in ("topic", "partition", "group")},
    "status": "statuses",
    "error": "error_codes",
    "errors": "errors_only",
}
"""The names of filters in checkpoints, as far as they have others there."""


def options_of(plan: ReadPlan) -> dict[str, Any]:
    """Return what rows depend on in addition to captures and topic names, as JSON values."""
    filters = {
        _STORED_NAMES.get(name, name): _json_value(value)
        for name, value in plan.filters.items()
        if value
    }
    return {
        "filters": filters,
        "ports": list(plan.ports),
        "definitions": plan.definitions,
        "max_memory_bytes": plan.max_memory_bytes,
    }


def _json_value(value: Any) -> Any:
    return list(value) if isinstance(value, list | tuple) else value


def _number(last: Commit | None) -> int:
    return 0 if last is None else last.run


def captures_text(count: int) -> str:
    """Return a number of captures as text."""
    return "1 capture" if count == 1 else f"{count} captures"
