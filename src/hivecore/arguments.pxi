"""What every Cython binding does with its arguments: integers, arrays of them, and their ranges.

Included by the bindings as text, so each has its own copy at C speed.
"""

import operator

import numpy as np

cimport cython
cimport numpy as cnp
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy
from libcpp.span cimport span
from libcpp.string cimport string
from libcpp.vector cimport vector

cnp.import_array()

ctypedef span[int64_t] Batch
ctypedef span[const int64_t] Values


cdef extern from *:
    """
    // The value of a plain int of one digit, which nearly every argument is, else -1.
    static inline long long small_int(PyObject* value) {
        if (!PyLong_CheckExact(value)) return -1;
    #if PY_VERSION_HEX >= 0x030C0000
        PyLongObject* number = (PyLongObject*) value;
        return PyUnstable_Long_IsCompact(number) ? PyUnstable_Long_CompactValue(number) : -1;
    #else
        return Py_SIZE(value) == 1 ? ((PyLongObject*) value)->ob_digit[0]
                                   : -(long long) (Py_SIZE(value) != 0);
    #endif
    }
    """
    int64_t small_int(object) noexcept
    long long PyLong_AsLongLongAndOverflow(object, int*) except? -1


cdef extern from "common/spans.hpp" namespace "hivecore" nogil:
    int64_t first_outside(Values, int64_t, int64_t) noexcept


cdef inline int64_t as_int64(object value, str name) except? -1:
    """The integer, or a TypeError or ValueError that names the argument."""
    cdef int64_t result = small_int(value)
    return result if result >= 0 else as_int64_slowly(value, name)


cdef int64_t as_int64_slowly(object value, str name) except? -1:
    cdef int overflow = 0
    cdef int64_t result
    if not isinstance(value, int):
        try:
            value = operator.index(value)
        except TypeError:
            raise TypeError(
                f"{name} must be an integer, not {type(value).__name__}"
            ) from None
    result = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow:
        raise ValueError(f"{name}={value}: too large")
    return result


cdef int check_integers(cnp.ndarray array, str name) except -1:
    """Raise a TypeError or ValueError if these are not integers that int64 holds."""
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, not {array.dtype}")
    if array.dtype.kind == "u" and array.dtype.itemsize == 8 and array.size:
        position = int(array.argmax())
        if array.flat[position] > 0x7FFFFFFFFFFFFFFF:
            raise ValueError(f"{name}[{position}]={array.flat[position]}: too large")
    return 0


cdef cnp.ndarray as_int64_array(object values, str name, int64_t shift):
    """A private int64 copy of a one-dimensional array of integers, each plus `shift`."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be an array of integers") from None
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, not {array.ndim}")
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    check_integers(array, name)
    return np.add(array, shift, dtype=np.int64, casting="unsafe")


cdef cnp.ndarray new_int64_array(cnp.npy_intp length):
    return cnp.PyArray_SimpleNew(1, &length, cnp.NPY_INT64)


cdef inline cnp.ndarray as_array(const vector[int64_t]& values):
    cdef cnp.ndarray result = new_int64_array(values.size())
    if not values.empty():
        memcpy(cnp.PyArray_DATA(result), values.data(), 8 * values.size())
    return result


cdef inline Batch as_batch(cnp.ndarray array) noexcept:
    return Batch(<int64_t*> cnp.PyArray_DATA(array), <size_t> cnp.PyArray_SIZE(array))


cdef inline Values as_values(cnp.ndarray array) noexcept:
    return Values(
        <const int64_t*> cnp.PyArray_DATA(array), <size_t> cnp.PyArray_SIZE(array)
    )


cdef int check_range(cnp.ndarray array, int64_t low, int64_t high, str name, int64_t shift) except -1:
    """Raise a ValueError that names the first element outside [low, high] (before the shift)."""
    cdef int64_t position = first_outside(as_values(array), low, high)
    if position >= 0:
        raise ValueError(
            f"{name}[{position}]={array[position] - shift}: "
            f"allowed are {low - shift} to {high - shift}"
        )
    return 0


cdef inline cnp.ndarray as_ids_below(object values, str name, int64_t count):
    ids = as_int64_array(values, name, 0)
    check_range(ids, 0, count - 1, name, 0)
    return ids
