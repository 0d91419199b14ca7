"""Checks of arguments that several bindings share."""


cdef int64_t as_bounded(object value, str name, int64_t low, int64_t high) except? -1:
    cdef int64_t result = as_int64(value, name)
    if not low <= result <= high:
        raise ValueError(f"{name}={result}: allowed are {low} to {high}")
    return result


cdef inline int as_flag(object value, str name) except -1:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be a bool, not {type(value).__name__}")
    return bool(value)


cdef inline cnp.ndarray new_bool_array(cnp.npy_intp length):
    return cnp.PyArray_SimpleNew(1, &length, cnp.NPY_BOOL)
