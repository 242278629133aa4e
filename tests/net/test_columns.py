from __future__ import annotations

import numpy as np

from kanalyze.net.columns import Places


def test_picking_keeps_what_is_wanted_and_is_free_for_all_of_it():
    places = Places(np.array([1, 2]), np.array([3, 4]), np.array([5, 6]))
    assert places.pick(np.array([True, True])) is places
    picked = places.pick(np.array([False, True]))
    assert (picked.row.tolist(), picked.at.tolist(), picked.limit.tolist()) == ([2], [4], [6])
    assert len(picked) == 1
