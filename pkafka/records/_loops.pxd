# The C types of _loops.py, which stays plain Python. Indices are checked (an IndexError is how the loops learn
# that data ends too early); negative ones never occur.
cimport cython

@cython.locals(raw=cython.ulonglong, byte=cython.ulonglong, index=cython.int)
cpdef tuple long_varint(const unsigned char[::1] data, Py_ssize_t position, int bytes_max)

@cython.locals(position=Py_ssize_t)
cpdef tuple walk(const unsigned char[::1] data, long long count)

@cython.locals(
    size=Py_ssize_t, end=Py_ssize_t, first=cython.longlong, null_keys=cython.longlong,
    misplaced=cython.longlong, raw=cython.ulonglong, byte=cython.ulonglong, ts=cython.ulonglong,
    ts_last=cython.ulonglong, delta=cython.longlong, ts_min=cython.longlong, ts_max=cython.longlong,
    ts_max_index=cython.longlong,
)
cpdef tuple walk_part(const unsigned char[::1] data, Py_ssize_t position, long long index, long long stop)

@cython.locals(raw=cython.ulonglong, count=cython.ulonglong)
cpdef Py_ssize_t walk_headers(const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t end, long long index) except -1

@cython.locals(
    position=Py_ssize_t, size=Py_ssize_t, end=Py_ssize_t, stop=Py_ssize_t, index=cython.longlong,
    raw=cython.ulonglong, byte=cython.ulonglong, ts=cython.ulonglong, offset=cython.ulonglong, delta=cython.longlong,
    timestamp=cython.longlong, ts_safe=cython.ulonglong, records=list,
)
cpdef list decode_records(
    bytes data, long long count, long long base_offset, long long base_timestamp, object fixed_timestamp, object make
)

@cython.locals(
    source="const unsigned char *", size=Py_ssize_t, with_key=cython.longlong, misplaced=cython.longlong,
    end=Py_ssize_t, place=Py_ssize_t, raw=cython.ulonglong, byte=cython.ulonglong, ts=cython.ulonglong,
    ts_safe=cython.ulonglong, ts_last=cython.ulonglong, timestamp=cython.longlong,
)
cpdef tuple columns_part(
    bytes data, Py_ssize_t position, long long index, long long stop, long long base_timestamp, long long[::1] times,
    long long at, list keys, list values, list heads
)

cpdef tuple decode_columns(bytes data, long long count, long long base_timestamp)

@cython.locals(
    view="long long[::1]", batch=Py_ssize_t, count=cython.longlong, at=cython.longlong, with_key=cython.longlong,
    misplaced=cython.longlong,
)
cpdef tuple decode_batches(bytes data, list starts, list ends, list counts, list base_timestamps)

@cython.locals(raw=cython.ulonglong, stop=Py_ssize_t, headers=list)
cpdef tuple decode_headers(bytes data, Py_ssize_t position)
