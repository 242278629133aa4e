"""Runs pytest with the arguments of this process, which ends soon after the last test.

Python would take apart all objects of all tests first, which takes up to four seconds. Functions
that are registered with ``atexit`` do run.
"""

from __future__ import annotations

import atexit
import os
import sys

_status = 1


@atexit.register
def _end() -> None:
    """End this process. It is registered before all other functions, so it is called after them."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_status)


if __name__ == "__main__":
    import pytest

    _status = int(pytest.main())
