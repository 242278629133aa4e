"""What is tried on a cluster of three: healthy workloads, and faults."""

from trials.faults import FAULTS
from trials.healthy import HEALTHY
from trials.racks import IN_RACKS

ALL = (*HEALTHY, *FAULTS, *IN_RACKS)
