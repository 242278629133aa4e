# The C types of framer.py.
cimport cython

from kanalyze.kafka.codec.machine cimport bytes_from, int32_in, start_of
from kanalyze.kafka.framing.frame cimport (AHEAD, CutFrame, Frame, frame_begun, frame_in_segment,
    free_frames, more_frames, NO_PACKET, prefetch_head, SegmentSpan, spread_of)
from kanalyze.model.streams cimport Segments


cdef class FrameLocator:
    pass


cdef class BoundarySearch:
    cdef object _locator
    cdef _SearchBuffer _made
    cdef public long long _candidate_offset, _searched_until
    cdef public bint is_on
    cdef public long long skipped_bytes

    @cython.locals(begin=cython.longlong)
    cpdef bint is_unconfirmed(self, Frame frame) except -1
    cpdef bint confirms(self, Frame frame) except -1
    cpdef long long clear(self) except -1
    @cython.locals(search=_SearchBuffer)
    cpdef list search(self, chunk)
    @cython.locals(search=_SearchBuffer)
    cpdef list search_buffered(self)
    cdef list _end(self, long long index)


cdef class _SearchBuffer:
    cdef public bytearray _bytes
    cdef public list _marks
    cdef public long long stream_offset, _cut_bytes, searched_bytes, needed_bytes

    cpdef add(self, segments, Py_ssize_t index, long long stream_offset)
    cpdef long long clear(self) except -1


@cython.final
cdef class PartialFrame:
    cdef public Frame frame
    cdef public long long remaining

    cdef extend(self, Frame frame, SegmentSpan spread)
    cpdef lose(self, long long length)
    cpdef Frame end(self, long long time_ns, long long packet)


@cython.final
cdef class SplitPrefix:
    cdef public Frame frame
    cdef public bytes _bytes

    cpdef begin(self, segments, long long index, long long stream_offset, long long used)
    cpdef int add(self, segments, long long index) except -2
    cpdef Frame end(self, long long size)


cdef list _NO_LOSSES
cdef list _NO_ITEMS


cdef long long completion_packet(CutFrame* frame) noexcept


@cython.final
cdef class CutFrames:
    cdef CutFrame* items
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t _room
    cdef list _sources
    cdef public list losses, rest

    cdef CutFrame* _next(self) except NULL
    cdef Segments segments(self, Py_ssize_t index)
    cdef int put(self, Segments segments, long long first, long long skip, long long length,
        long long stream_offset, long long last) except -1
    cpdef add(self, Frame frame)
    cpdef Frame frame(self, Py_ssize_t index)
    @cython.locals(before=cython.Py_ssize_t)
    cpdef extend(self, CutFrames later)
    cpdef clear(self)


@cython.locals(start=cython.longlong, captured=cython.longlong)
cdef int _check(Segments segments, long long index) except -1


cdef class FrameCutter:
    cdef readonly int smallest_bytes, largest_bytes
    cdef public int remaining_small_frames
    cdef object _locator
    cdef CutFrames _cut_so_far
    cdef list _losses
    cdef BoundarySearch _made_search
    cdef long long _begun
    cdef public long long _search_from
    cdef PartialFrame _made_partial
    cdef SplitPrefix _split

    cpdef Frame partial_frame(self)
    cpdef bint is_in_sync(self) except -1
    cpdef bint needs_locator(self) except -1
    cpdef CutFrames feed(self, list items)
    @cython.locals(index=cython.Py_ssize_t)
    cpdef CutFrames feed_until_loss(self, list items)
    cpdef CutFrames finish(self)
    cdef list _cut_chunks(self, list chunks)
    @cython.locals(segments=Segments, lengths="const long long[::1]", index=cython.longlong,
        last=cython.longlong, offset=cython.longlong, used=cython.longlong, first=cython.longlong,
        skip=cython.longlong, added_bytes=cython.longlong, length=cython.longlong,
        end=cython.longlong)
    cdef list _cut(self, chunk)
    @cython.locals(length=cython.longlong, start=cython.longlong, captured=cython.longlong,
        size=cython.longlong)
    cdef long long _cut_segment(self, Segments segments, long long index, long long offset,
        long long used) except -1
    cdef _finish(self, long long time_ns, long long packet)
    @cython.locals(prefix_bytes=cython.longlong)
    cdef long long _complete_prefix(self, SplitPrefix split, Segments segments, long long index) except -2


cdef CutFrames _results(FrameCutter cutter)
cdef bint _has_split(FrameCutter cutter) noexcept
cdef bint _is_searching(FrameCutter cutter) noexcept
cdef CutFrames _cut_frames(FrameCutter cutter, list rest)
cdef _reject(FrameCutter cutter, Frame frame)
cdef _begin_partial(FrameCutter cutter, Frame frame, long long remaining)
@cython.locals(index=cython.longlong, end=cython.longlong)
cdef long long _end_of_begun(FrameCutter cutter, Segments segments, long long first, long long last,
    long long offset, long long skip, long long length) except -2
cdef long long _cut_begun(FrameCutter cutter, Segments segments, long long first, long long last,
    long long offset, long long skip) except -2

cdef bint _accepts(FrameCutter cutter, long long size) except -1
