"""The captures of one analysis: finds and opens them, and opens them again to search for names.

In: captures as a user gives them. Out: :class:`~kanalyze.runtime.stages.Captures`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, BinaryIO, TypeAlias, cast

from kanalyze.capture.inputs import FoundCapture, find_inputs, look_at
from kanalyze.capture.io.stores import Stores
from kanalyze.capture.merge import MergedCaptures
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from kanalyze.capture.merge import MergeInput
    from kanalyze.common.paths import FileIdentity
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.runtime.stages import Captures

__all__ = ["AnalysisInputs", "CaptureInput"]

CaptureInput: TypeAlias = str | os.PathLike[str] | FoundCapture | BinaryIO
"""A path, a folder, a glob, a URL, or ``-`` for standard input; a capture that was found before; or
a binary file, which is read from its current position."""


class AnalysisInputs:
    """The captures of one analysis. :meth:`open` opens them, once."""

    def __init__(
        self,
        inputs: Sequence[CaptureInput],
        source: Captures | None = None,
        leave_out: Callable[[Anomaly], object] | None = None,
        outputs: Collection[FileIdentity] = (),
    ) -> None:
        """Store the inputs; for the arguments see :class:`~kanalyze.runtime.pipeline.Analysis`.

        Raises:
            UsageError: an input cannot be a capture.
        """
        self._inputs = tuple(map(_capture, inputs))
        self._source = source
        self._leave_out = leave_out
        self._outputs = outputs
        self._opened: Captures | None = None
        self.stores = Stores()
        self.captures: list[MergeInput] = []
        """The captures, with folders and globs resolved; known once they are open."""
        self.left_out: list[Anomaly] = []
        """Files that cannot be read; known once the captures are open."""

    def open(self) -> Captures:
        """Find the captures and open them.

        Raises:
            CaptureError: a capture is missing.
            UsageError: the captures were opened before, or none is given.
        """
        if self._opened is not None:
            raise UsageError("an analysis can be run only once: make another one")
        if self._source is not None:
            self._opened = self._source
        else:
            self.captures = self._find()
            self._opened = MergedCaptures(self.captures, stores=self.stores)
        return self._opened

    @property
    def opened(self) -> Captures:
        """The captures, which must be open."""
        assert self._opened is not None
        return self._opened

    def open_again(self) -> MergedCaptures | None:
        """Open the captures for another pass; None if they can be read only once."""
        if self._opened is None or not self._opened.can_be_read_again:
            return None
        return MergedCaptures(self.captures, stores=self.stores)

    @property
    def progress(self) -> tuple[int, int | None]:
        """Bytes read so far, and bytes in all; the latter is None if an input is a pipe."""
        opened = self._opened  # read once: a progress bar calls this from another thread
        return (0, None) if opened is None else opened.progress

    @property
    def are_files(self) -> bool:
        """True if the captures are open and can be read more than once."""
        return self._opened is not None and self._opened.can_be_read_again

    def first_time_ns(self) -> int | None:
        """Return the Unix time of the first packet of files in ns; None if there is no packet."""
        found = (capture for capture in self.captures if isinstance(capture, FoundCapture))
        times = (look_at(capture, self.stores).first_time_ns for capture in found)
        return next((time_ns for time_ns in times if time_ns is not None), None)

    def _find(self) -> list[MergeInput]:
        if not self._inputs:
            raise UsageError("no capture given")
        names = [item for item in self._inputs if isinstance(item, str)]
        files = [item for item in self._inputs if not isinstance(item, str)]
        captures: list[FoundCapture] = []
        if names:
            captures = find_inputs(names, self.stores, self._leave_out_file, self._outputs)
        return [*captures, *files]

    def _leave_out_file(self, anomaly: Anomaly) -> None:
        self.left_out.append(anomaly)
        if self._leave_out is not None:
            self._leave_out(anomaly)


def _capture(value: object) -> str | FoundCapture | BinaryIO:
    """Return a capture as :class:`AnalysisInputs` stores it; raises UsageError for other values."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str | FoundCapture) or hasattr(value, "read"):
        return cast("str | FoundCapture | BinaryIO", value)
    from kanalyze.common.argument_values import shown  # imported late: for the message

    raise UsageError(f"not a capture: {shown(value)} (use a path, a folder, a glob, an open file)")
