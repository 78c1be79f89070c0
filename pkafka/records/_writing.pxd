# The C types of _writing.py, which stays plain Python. Pointers need no checks: the sizes were summed up before.
cimport cython

@cython.locals(
    start=Py_ssize_t, position=Py_ssize_t, total=Py_ssize_t, header_size=Py_ssize_t, fixed=Py_ssize_t,
    offset=cython.longlong, value=bytes, key=bytes, body=Py_ssize_t, size=Py_ssize_t, end=Py_ssize_t,
    value_size=Py_ssize_t, key_size=Py_ssize_t, place=Py_ssize_t, target="unsigned char *",
    source="const unsigned char *",
)
cpdef Py_ssize_t append_records(
    bytearray out, list values, list keys, bytes headers, Py_ssize_t index, Py_ssize_t stop,
    long long timestamp_delta, long long offset_delta, Py_ssize_t bytes_max
) except -1

cdef unsigned long long zigzag(long long value) noexcept

@cython.locals(size=Py_ssize_t)
cdef Py_ssize_t size_of(unsigned long long raw) noexcept

cdef Py_ssize_t put(unsigned char *target, Py_ssize_t position, unsigned long long raw) noexcept

@cython.locals(
    source="const unsigned char *", size=Py_ssize_t, position=Py_ssize_t, place=Py_ssize_t,
    h=cython.ulonglong, k=cython.ulonglong, mask=cython.ulonglong, seed=cython.ulonglong,
)
cpdef unsigned long long murmur2(bytes data) except? 0

@cython.locals(found=list, key=bytes)
cpdef list partitions_of_keys(list keys, long long partition_count)

@cython.locals(raw=cython.ulonglong)
cpdef void append_varint(bytearray out, long long value) except *

@cython.locals(raw=cython.ulonglong)
cpdef int varint_size(long long value) except -1

@cython.locals(key_size=Py_ssize_t, value_size=Py_ssize_t, body=Py_ssize_t)
cpdef void append_record(
    bytearray out, long long timestamp_delta, long long offset_delta, bytes key, bytes value, bytes headers
) except *
