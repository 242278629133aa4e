"""What is tried on a cluster of three: healthy workloads, and faults."""

from trials.faults import FAULTS
from trials.healthy import HEALTHY

ALL = (*HEALTHY, *FAULTS)
