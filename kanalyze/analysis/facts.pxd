# The C types of facts.py.
cimport cython

from kanalyze.analysis.sessions cimport SessionFacts


cdef class Part:
    cdef public object topic
    cdef public object topic_id
    cdef public object partition
    cdef public object record_count
    cdef public object record_bytes
    cdef public object base_offset
    cdef public object high_watermark
    cdef public object codec
    cdef public object error_code
    cdef public object last_offset


cdef class Facts:
    cdef public list parts
    cdef public list errors
    cdef public list names
    cdef public SessionFacts session
    cdef public object delivery
    cdef public object leads
    cdef public object throttle_time_ms
    cdef public object acks
    cdef public object max_wait_ms
    cdef public object min_bytes
    cdef public object max_bytes
    cdef public object max_records
    cdef public object share_epoch
    cdef public object group_id
    cdef public object member_id
    cdef public object transactional_id


@cython.locals(made=Part)
cdef Part new_part(topic, topic_id, partition)
cdef object known_offset(offset)
