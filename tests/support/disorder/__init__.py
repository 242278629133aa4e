"""Captures in disorder: the same streams in other packets, encapsulations and files.

In: captures of the repository. Out: the same captures, permuted, doubled, cut anew, wrapped,
converted.

    tests.support.disorder.variants("mock")        every transformation of a capture, as files
    python -m tests.support.disorder mock VXLAN out.pcap    one, to look at
"""

from tests.support.disorder.catalog import BEYOND, TRANSFORMATIONS
from tests.support.disorder.transformation import PLACES, TIMES, Altered, Stage, Transformation
from tests.support.disorder.variants import (
    Variant,
    altered,
    combination,
    packets_of,
    variants,
)

__all__ = [
    "BEYOND",
    "PLACES",
    "TIMES",
    "TRANSFORMATIONS",
    "Altered",
    "Stage",
    "Transformation",
    "Variant",
    "altered",
    "combination",
    "packets_of",
    "variants",
]
