# The C types of frame.py.
cimport cython
from libc.stdlib cimport free, realloc

from kanalyze.model.streams cimport Segments

# A frame that was cut: as numbers, if its bytes lie whole in consecutive segments of one batch, from
# byte `skip` of the segment `first` on, `contiguous` of them at `data`; or as an object, the one with
# the number `source`.
cdef struct CutFrame:
    long long length, stream_offset, start_ns, start_packet, last_ns, last_packet
    const unsigned char* data
    long long contiguous, first, skip
    Py_ssize_t source
    bint is_object


cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define kanalyze_prefetch(address) __builtin_prefetch(address)
    #else
    #define kanalyze_prefetch(address) ((void) (address))
    #endif
    """
    void kanalyze_prefetch(const void* address) noexcept nogil

cdef enum:
    AHEAD = 6


# Bytes of packets are mostly in no cache yet: to wait for them takes as long as to read a message.
# They are fetched AHEAD segments, or messages, before they are read, in lines of 64 bytes.
cdef inline void prefetch_head(const unsigned char* data) noexcept nogil:
    kanalyze_prefetch(data)


cdef inline void prefetch_message(const unsigned char* data) noexcept nogil:
    kanalyze_prefetch(data)
    kanalyze_prefetch(data + 64)
    kanalyze_prefetch(data + 128)
    kanalyze_prefetch(data + 192)


cdef inline CutFrame* more_frames(CutFrame* old, Py_ssize_t room) except NULL:
    cdef CutFrame* frames = <CutFrame*> realloc(old, room * sizeof(CutFrame))
    if frames is NULL:
        raise MemoryError()
    return frames


cdef inline void free_frames(CutFrame* frames) noexcept:
    free(frames)


cdef class SegmentSpan:
    cdef readonly Segments segments
    cdef readonly long long length, buffered_bytes
    cdef long long _first, _last, _skip, _index, _at

    @cython.locals(at=cython.longlong, index=cython.longlong, buffered=cython.longlong,
        begin=cython.longlong, end=cython.longlong)
    cdef _begin(self, Segments segments, long long first, long long skip, long long length)
    @cython.locals(reach=cython.longlong, at=cython.longlong, captured=cython.longlong)
    cpdef long long reach(self) except -1
    cpdef long long contiguous_end(self, long long at) except? -1
    cpdef long long buffer_index(self, long long at) except? -1
    @cython.locals(have=cython.longlong, end=cython.longlong, start=cython.longlong)
    cpdef view(self, long long at, long long least)


@cython.locals(spread=SegmentSpan)
cdef SegmentSpan spread_of(Segments segments, long long first, long long skip, long long length)


cdef class FramePieces:
    cdef public list _at, _pieces
    cdef public long long _owned

    cpdef add(self, long long at, piece)
    cpdef detach(self)
    @cython.locals(begin=cython.longlong, end=cython.longlong, start=cython.longlong,
        spread=SegmentSpan)
    cdef const unsigned char[::1] contiguous(self, long long at)
    @cython.locals(index=cython.Py_ssize_t, have=cython.longlong)
    cpdef join(self, long long at, long long least)
    cdef Py_ssize_t _index_of(self, long long at) except -1


cdef enum:
    NO_PACKET = -1


cdef class Frame:
    cdef readonly long long length, stream_offset, start_time_ns, start_packet, last_time_ns
    cdef readonly long long last_packet
    cdef public long long missing_bytes, lost_bytes, buffered_bytes
    cdef Segments segments
    cdef long long begin, contiguous_bytes
    cdef public FramePieces _pieces
    cdef public object batch_sums
    cdef public long long skim_above, window_bytes

    cdef _begin_at(self, long long length, long long stream_offset, long long time_ns,
        long long packet)
    cpdef end_with(self, long long time_ns, long long packet)
    cpdef long long completion_packet(self) except? -1
    cpdef whole(self)
    cpdef add(self, long long at, piece)
    cpdef add_spread(self, long long at, SegmentSpan spread)
    cpdef read(self, long long at, long long length)
    cpdef window(self, long long at)
    cdef const unsigned char[::1] contiguous(self, long long at)
    cpdef FramePieces in_pieces(self)
    cpdef detach(self)
    cdef _join(self, long long at, long long least)


cdef _check_end(long long at, long long length)
@cython.locals(frame=Frame)
cdef Frame frame_begun(long long length, long long stream_offset, long long time_ns,
    long long packet)
@cython.locals(frame=Frame)
cdef Frame frame_in_segment(Segments segments, long long index, long long used, long long length,
    long long stream_offset)


@cython.locals(body=cython.Py_ssize_t, flexible=cython.int, i=cython.int, length=cython.int)
cpdef Py_ssize_t plain_body(bytes data, bytes head, int header_version) except -1


@cython.final
cdef class RequestHeader:
    cdef readonly int api_key, api_version
    cdef readonly long long correlation_id
    cdef readonly str client_id
    cdef readonly long long body


cdef bytes rest_of(Frame frame, long long at)
@cython.locals(header=RequestHeader)
cdef RequestHeader request_header_of(int api_key, int api_version, long long correlation_id,
    str client_id, long long body)
