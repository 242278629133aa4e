# The C types of batch_checks.py.
cimport cython

from kanalyze.kafka.codec.machine cimport Machine
from kanalyze.kafka.framing.frame cimport Frame


cdef class BatchCounts:
    cdef public long long batches
    cdef public long long checked
    cdef public long long wrong

    cpdef add(self, BatchCounts other)


cdef class BatchChecks(BatchCounts):
    cdef public long long first_at
    cdef public long long first_offset


@cython.locals(
    checks=BatchChecks,
    index=cython.longlong,
    at=cython.longlong,
    end=cython.longlong,
    reached=cython.longlong,
    magic=cython.int,
)
cpdef BatchChecks checks_of(Frame frame, Machine machine)
cdef _whole(Frame frame)
cdef _head_in(whole, long long at)
cdef _checksum(int magic, whole, long long at, long long end)
cdef int _covered_from(int magic)
@cython.locals(index=cython.longlong, at=cython.longlong, end=cython.longlong)
cpdef sum_up(Frame frame, Machine machine)
@cython.locals(begin=cython.longlong)
cdef (long long, long long) _noted(Frame frame, Machine machine, long long index)
@cython.locals(magic=cython.int)
cdef tuple _continued(Frame frame, head, long long at, long long end)
