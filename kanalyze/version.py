"""The version of this package. The build reads this file too."""

from __future__ import annotations

__version__ = "0.1.0"
