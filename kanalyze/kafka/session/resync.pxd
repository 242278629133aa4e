# The C types of resync.py.
cimport cython

from kanalyze.kafka.codec.machine cimport int16_at, int32_at
from kanalyze.kafka.framing.frame cimport Frame, frame_in_segment
from kanalyze.model.streams cimport Segments


@cython.locals(length=cython.longlong, size=cython.longlong)
cdef Frame _whole_frame(Segments segments, Py_ssize_t index)
cdef int _int16_in(Frame frame, long long at) except? -7
