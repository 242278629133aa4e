# The C types of frame.py.
cimport cython

from kanalyze.kafka.framing.frame_pieces cimport FramePieces, SegmentSpan
from kanalyze.model.streams cimport Segments


cdef enum:
    NO_PACKET = -1


cdef class Frame:
    cdef readonly long long length
    cdef readonly long long stream_offset
    cdef readonly long long start_time_ns
    cdef readonly long long start_packet
    cdef readonly long long last_time_ns
    cdef readonly long long last_packet
    cdef public long long missing_bytes
    cdef public long long lost_bytes
    cdef public long long buffered_bytes
    cdef Segments segments
    cdef long long begin
    cdef long long contiguous_bytes
    cdef SegmentSpan spread
    cdef public FramePieces _pieces
    cdef public object batch_sums
    cdef public long long skim_above
    cdef public long long window_bytes

    cdef _begin_at(
        self, long long length, long long stream_offset, long long time_ns, long long packet
    )
    cpdef end_with(self, long long time_ns, long long packet)
    cpdef long long completion_packet(self) except? -1
    cpdef whole(self)
    cpdef add(self, long long at, piece)
    cpdef add_spread(self, long long at, SegmentSpan spread)
    cpdef read(self, long long at, long long length)
    cpdef window(self, long long at)
    cdef const unsigned char[::1] contiguous(self, long long at)
    @cython.locals(pieces=FramePieces)
    cpdef FramePieces in_pieces(self)
    cpdef detach(self)
    cdef _check_end(self, long long at)
    cdef _join(self, long long at, long long least)


@cython.locals(frame=Frame)
cdef Frame frame_begun(
    long long length, long long stream_offset, long long time_ns, long long packet
)
@cython.locals(frame=Frame, time_ns=cython.longlong, packet=cython.longlong)
cdef Frame frame_in_segment(
    Segments segments, long long index, long long used, long long length, long long stream_offset
)
