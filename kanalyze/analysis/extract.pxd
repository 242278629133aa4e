# The C types of extract.py.
cimport cython

from kanalyze.analysis.facts cimport Facts, Part, known_offset, new_part
from kanalyze.analysis.interests cimport BodyWalk
from kanalyze.analysis.sessions cimport SessionFacts


cdef class _Extractor:
    cdef object request
    cdef object response
    cdef object fill


cdef class Extractors:
    cdef object _catalog
    cdef dict _extractors

    @cython.locals(extractor=_Extractor)
    cpdef wanted(self, api_key, kind)
    @cython.locals(facts=Facts, extractor=_Extractor)
    cpdef Facts facts(self, api_key, request, response)
    @cython.locals(extractor=_Extractor)
    cdef _Extractor _of(self, api_key)


cdef _count_records(Part part, records)
@cython.locals(part=Part, before=Part, known=dict)
cdef list _each_once(list parts, dict names)
cdef object _first(one, other)
@cython.locals(made=Part)
cdef Part _joined(Part first, Part second)
@cython.locals(results=dict, parts=list, part=Part, place=tuple, found=tuple, result=tuple)
cpdef _produce(Facts facts, asked, answered)
@cython.locals(parts=list, part=Part, seen=set, places=list, place=tuple, one=tuple)
cpdef _fetch(Facts facts, asked, answered)
