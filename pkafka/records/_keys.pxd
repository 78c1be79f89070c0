# The C types of _keys.py, which stays plain Python; see _loops.pxd.
cimport cython

@cython.locals(
    word=cython.ulonglong, factor_1=cython.ulonglong, factor_2=cython.ulonglong, h1=cython.ulonglong,
    h2=cython.ulonglong, k1=cython.ulonglong, k2=cython.ulonglong, end=Py_ssize_t, rest=Py_ssize_t, index=Py_ssize_t,
)
cdef void key_digest(
    bytes data, Py_ssize_t position, Py_ssize_t size, unsigned long long seed, unsigned long long[::1] digest
) except *

@cython.locals(h1=cython.ulonglong, h2=cython.ulonglong, place=cython.ulonglong)
cdef int put_offset(
    unsigned long long[::1] table, unsigned long long slots, unsigned long long[::1] digest, long long offset
) except -1

@cython.locals(h1=cython.ulonglong, h2=cython.ulonglong, place=cython.ulonglong, offset=cython.longlong)
cdef long long get_offset(
    unsigned long long[::1] table, unsigned long long slots, unsigned long long[::1] digest
) except -2

@cython.locals(source=Py_ssize_t, place=cython.ulonglong)
cpdef void move_slots(unsigned long long[::1] old, unsigned long long[::1] table, unsigned long long slots) except *

@cython.locals(stop=Py_ssize_t)
cdef Py_ssize_t varint_end(bytes data, Py_ssize_t position) except -1

@cython.locals(raw=cython.ulonglong)
cdef unsigned long long varint_at(bytes data, Py_ssize_t position, Py_ssize_t end) except? 0

@cython.locals(
    position=Py_ssize_t, index=cython.longlong, size=Py_ssize_t, after=Py_ssize_t, end=Py_ssize_t,
    length=Py_ssize_t, raw=cython.ulonglong, offset=cython.longlong,
)
cpdef tuple map_keys(
    bytes data, long long count, long long base_offset, long long start_offset, unsigned long long[::1] table,
    unsigned long long[::1] digest, unsigned long long slots, unsigned long long seed, long long entries,
    long long entries_max
)

@cython.locals(
    position=Py_ssize_t, index=cython.longlong, kept=cython.longlong, tombstones=cython.longlong,
    keyless=cython.longlong, ts_max=cython.longlong, delta=cython.longlong, run_start=Py_ssize_t,
    run_end=Py_ssize_t, size=Py_ssize_t, start=Py_ssize_t, after=Py_ssize_t, end=Py_ssize_t,
    length=Py_ssize_t, raw=cython.ulonglong, ts=cython.ulonglong, offset=cython.longlong,
    has_key=cython.bint, has_value=cython.bint, keep=cython.bint, out=bytearray,
)
cpdef tuple select_records(
    bytes data, long long count, long long base_offset, long long latest_offset, unsigned long long[::1] table,
    unsigned long long[::1] digest, unsigned long long slots, unsigned long long seed, bint drop_tombstones
)

@cython.locals(
    position=Py_ssize_t, index=cython.longlong, size=Py_ssize_t, after=Py_ssize_t, end=Py_ssize_t,
    length=Py_ssize_t, raw=cython.ulonglong, ts=cython.ulonglong, delta=cython.longlong, out=bytearray,
)
cpdef bytearray retime(bytes data, long long count, object shift)

@cython.locals(number=cython.ulonglong, index=Py_ssize_t)
cdef unsigned long long number_at(bytes data, Py_ssize_t position, Py_ssize_t size) except? 0

@cython.locals(end=Py_ssize_t)
cdef Py_ssize_t plain_end(bytes data, Py_ssize_t position, object checksum) except? -1

@cython.locals(
    after=Py_ssize_t, behind=Py_ssize_t, raw=cython.ulonglong, key_end=Py_ssize_t, key=bytes,
)
cdef int note_values(bytes data, Py_ssize_t position, Py_ssize_t end, long long count, dict values) except -1

@cython.locals(size=Py_ssize_t, header=Py_ssize_t, following=cython.longlong, end=Py_ssize_t)
cpdef tuple last_values(bytes data, Py_ssize_t position, Py_ssize_t stop, dict values, object checksum)

@cython.locals(key=bytes, value=bytes, others=list)
cpdef list others_than(list items, Py_ssize_t size, Py_ssize_t place, bytes allowed)

@cython.locals(end=Py_ssize_t, index=Py_ssize_t)
cdef int has_string_only(bytes key) except -1

@cython.locals(index=Py_ssize_t)
cdef int has_byte(bytes value, Py_ssize_t size, Py_ssize_t place, bytes allowed) except -1
