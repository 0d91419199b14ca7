"""Checks of arguments that several parts of the caching binding share."""


cdef double as_finite(object value, str name) except? -1.0:
    cdef double number = as_float(value, name)
    if not isfinite(number):
        raise ValueError(f"{name}={number}: must be finite")
    return number


cdef double as_rate(object value) except? -1.0:
    cdef double rate = as_finite(value, "rate")
    if rate <= 0.0:
        raise ValueError(f"rate={value}: must be above 0")
    return rate


cdef bint is_id_array(cnp.ndarray array) noexcept:
    cdef int kind = cnp.PyArray_TYPE(array)
    return cnp.PyArray_ISCARRAY_RO(array) and (
        kind == cnp.NPY_INT64 or kind == cnp.NPY_INT32 or kind == cnp.NPY_UINT32
    )


cdef cnp.ndarray as_line(object values, str name, str kinds="integers"):
    """An array of one dimension: the very one if it is such an array."""
    cdef cnp.ndarray array
    if isinstance(values, cnp.ndarray):
        array = values
    else:
        try:
            array = np.asarray(values)
        except ValueError:  # lists of several lengths
            raise ValueError(f"{name} must be an array of {kinds}") from None
        if array.ndim == 0:
            raise TypeError(f"{name} must be an array of {kinds}, not {type(values).__name__}")
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, not {array.ndim}")
    return array


cdef cnp.ndarray as_ids(object values, str name):
    """Ids as an aligned array of int64, int32 or uint32: the very one if it is such an array."""
    cdef cnp.ndarray array = as_line(values, name)
    if is_id_array(array):
        return array
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    check_integers(array, name)
    return np.require(array, np.int64, ["C", "A"])


cdef uint8_t* as_mask(object out, Py_ssize_t length) except? NULL:
    """Where to write whether each access was a hit; NULL for None."""
    if out is None:
        return NULL
    if not isinstance(out, np.ndarray) or out.dtype != np.bool_:
        kind = f"an array of {out.dtype}" if isinstance(out, np.ndarray) else type(out).__name__
        raise TypeError(f"out must be a NumPy array of bool, not {kind}")
    if out.ndim != 1 or len(out) != length:
        raise ValueError(f"out has the shape {out.shape}, allowed is ({length},)")
    if not cnp.PyArray_ISCARRAY(out):
        raise ValueError("out must be contiguous and writable")
    return <uint8_t*> cnp.PyArray_DATA(out)


cdef uint8_t* as_mask_of(object out, cnp.ndarray ids, str name) except? NULL:
    """The same for accesses of these ids, which it must not overwrite."""
    cdef uint8_t* mask = as_mask(out, cnp.PyArray_SIZE(ids))
    if mask != NULL and np.may_share_memory(out, ids):
        raise ValueError(f"out must not share memory with {name}")
    return mask
