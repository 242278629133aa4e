# The C types of framer.py.
cimport cython

from kanalyze.kafka.codec.machine cimport int32_at
from kanalyze.kafka.framing.boundary_search cimport BoundarySearch
from kanalyze.kafka.framing.frame cimport NO_PACKET, Frame, frame_begun, frame_in_segment
from kanalyze.kafka.framing.frame_pieces cimport spread_of
from kanalyze.kafka.framing.partial_frame cimport PartialFrame, SplitPrefix
from kanalyze.model.streams cimport Segments


cdef list _NO_LOSSES
cdef list _NO_ITEMS


@cython.final
cdef class CutFrames:
    cdef public list frames
    cdef public list losses
    cdef public list rest


@cython.final
cdef class SizeLimits:
    cdef long long _smallest
    cdef long long _largest
    cdef public int remaining_small_frames

    cdef bint accepts(self, long long size) except -1


cdef class FrameCutter:
    cdef public SizeLimits _sizes
    cdef public list _frames
    cdef public list _losses
    cdef public BoundarySearch _search
    cdef public long long _search_from
    cdef public PartialFrame partial
    cdef public SplitPrefix _prefix

    @cython.locals(cut=CutFrames, more=CutFrames)
    cpdef CutFrames feed(self, list items)
    @cython.locals(index=cython.Py_ssize_t, losses=list)
    cpdef CutFrames feed_until_loss(self, list items)
    cpdef CutFrames finish(self)
    cdef CutFrames _cut_frames(self, list rest)
    @cython.locals(losses_before=cython.Py_ssize_t)
    cdef list _cut_chunks(self, list chunks)
    @cython.locals(
        segments=Segments,
        partial=PartialFrame,
        lengths="const long long[::1]",
        index=cython.longlong,
        last=cython.longlong,
        offset=cython.longlong,
        used=cython.longlong,
        first=cython.longlong,
        skip=cython.longlong,
        added_bytes=cython.longlong,
        length=cython.longlong,
    )
    cdef list _cut(self, chunk)
    @cython.locals(
        length=cython.longlong,
        start=cython.longlong,
        captured=cython.longlong,
        size=cython.longlong,
        time_ns=cython.longlong,
        packet=cython.longlong,
    )
    cdef long long _cut_segment(
        self, Segments segments, long long index, long long offset, long long used
    ) except -1
    @cython.locals(frame=Frame)
    cdef _finish(self, long long time_ns, long long packet)
    @cython.locals(prefix_bytes=cython.longlong, time_ns=cython.longlong, packet=cython.longlong)
    cdef long long _complete_prefix(
        self, Frame frame, Segments segments, long long index
    ) except -2
