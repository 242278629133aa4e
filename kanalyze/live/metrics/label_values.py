"""The values of labels, up to a limit.

In: columns. Out: the number of the label of each value.

Values from the wire are unlimited, and a metrics server keeps a series for each. So only the first
values of a label get a series; all others are counted as ``other``.
"""

from __future__ import annotations

from hashlib import blake2s
from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.common.texts import escape

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.tables.columns.numpy_arrays import WordArray

__all__ = ["OTHER", "LabelValues", "label_text"]

OTHER: Final = "other"
"""The label of all values beyond the limit; no other value has it."""
_MAX_LABEL_CHARS: Final = 128
_DIGEST_CHARS: Final = 8

_OTHER_SLOT: Final = 0
_NULL_SLOT: Final = 1
_RESERVED: Final = 2


def label_text(value: str) -> str:
    """Return a value from the wire as a label: printable, of limited length.

    A long value is cut, and a digest makes it unique.
    """
    if len(value) <= _MAX_LABEL_CHARS:
        return escape(value)
    digest = blake2s(value.encode("utf-8", "backslashreplace"), digest_size=_DIGEST_CHARS // 2)
    return escape(value[: _MAX_LABEL_CHARS - _DIGEST_CHARS - 1]) + "~" + digest.hexdigest()


class LabelValues:
    """The values of a label, each with a number (its *slot*), up to a limit.

    If a value from the wire equals a reserved label, such as :data:`OTHER`, its first character is
    escaped.
    """

    def __init__(self, name: str, limit: int, *, null: str = "") -> None:
        """Start without values.

        Args:
            name: of the label.
            limit: the number of values with a slot of their own.
            null: the label of unknown values; if it is empty, empty values share it.
        """
        self.name = name
        self.limit = limit
        self.texts = [OTHER, null]
        """Texts of the values, by slot."""
        self.folded = 0
        """The number of items counted under :data:`OTHER`."""
        self._reserved = frozenset(filter(None, self.texts))
        self._slots: dict[str, int] = {} if null else {null: _NULL_SLOT}

    @property
    def used(self) -> int:
        """The number of values with a slot of their own."""
        return len(self.texts) - _RESERVED

    def slot(self, value: str) -> int:
        """Return the slot of a value."""
        text = label_text(value)
        if text in self._reserved:
            text = f"\\u{ord(text[0]):04x}{text[1:]}"
        used_slot = self._slots.get(text)
        if used_slot is not None:
            return used_slot
        if self.used == self.limit:
            return _OTHER_SLOT
        self._slots[text] = slot = len(self.texts)
        self.texts.append(text)
        return slot

    def slots(self, values: WordArray) -> NDArray[np.int64]:
        """Return the slot of each value."""
        codes, words = values
        # Words that do not occur get no slot. Code -1, null, is the last index.
        slots = np.full(len(words) + 1, _NULL_SLOT)
        counts = np.bincount(codes + 1, minlength=len(words) + 1)[1:]
        for code in np.flatnonzero(counts).tolist():
            slots[code] = slot = self.slot(words[code])
            if slot == _OTHER_SLOT:
                self.folded += int(counts[code])
        return slots[codes]
