"""Arrays of float64 between NumPy and a kernel, without copies."""

ctypedef span[const double] Reals


cdef cnp.ndarray as_typed_array(object values, str name, int kind, cnp.npy_intp length):
    """The array itself if it is what the wrapper makes of an argument, else an error."""
    if not isinstance(values, np.ndarray):
        raise TypeError(f"{name} must be an array, not {type(values).__name__}")
    cdef cnp.ndarray array = values
    if array.ndim != 1 or cnp.PyArray_TYPE(array) != kind or not cnp.PyArray_IS_C_CONTIGUOUS(array):
        raise TypeError(f"{name} must be a contiguous array of one dimension and its own type")
    if length >= 0 and cnp.PyArray_SIZE(array) != length:
        raise ValueError(f"{name} must have {length} elements, not {cnp.PyArray_SIZE(array)}")
    if cnp.PyArray_SIZE(array) > 0x7FFFFFFF:
        raise ValueError(f"{name} has more than 2**31 - 1 elements")
    return array


cdef inline Reals as_real_span(cnp.ndarray array) noexcept:
    return Reals(<const double*> cnp.PyArray_DATA(array), <size_t> cnp.PyArray_SIZE(array))


cdef inline Reals as_reals(object values, str name, cnp.npy_intp length) except *:
    return as_real_span(as_typed_array(values, name, cnp.NPY_FLOAT64, length))


@cython.internal
cdef class HeldReals:
    """Memory of the kernel that an array shows."""

    cdef vector[double] values


cdef cnp.ndarray hold_reals(vector[double]& values):
    """The array of these numbers, which are not copied."""
    cdef HeldReals held = HeldReals.__new__(HeldReals)
    held.values.swap(values)
    cdef cnp.npy_intp length = held.values.size()
    cdef cnp.ndarray result = cnp.PyArray_SimpleNewFromData(
        1, &length, cnp.NPY_FLOAT64, held.values.data()
    )
    cnp.set_array_base(result, held)
    return result
