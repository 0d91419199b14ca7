"""Ids of a trace: integers and strings of any kind, and dense numbers for them."""


cdef extern from "caching/ids.hpp" namespace "hivecore::caching" nogil:
    cdef cppclass Ids:
        const void* data
        size_t size
        bint is_64_bit
        bint is_signed

    cdef cppclass Texts:
        const char* data
        size_t size
        size_t width

    int64_t largest_id(const Ids&, uint64_t, int64_t&) noexcept
    uint64_t number_ids(const Ids&, uint64_t, uint32_t*) except +
    uint64_t number_texts "hivecore::caching::number_ids"(
        const Texts&, uint64_t, uint32_t*
    ) except +


cdef enum:
    # So many times the length of a trace an id may be to index arrays: less than a hash table takes.
    SPARSE_IDS = 8


cdef Ids view_of(cnp.ndarray ids) noexcept:
    cdef Ids view
    view.data = cnp.PyArray_DATA(ids)
    view.size = cnp.PyArray_SIZE(ids)
    view.is_64_bit = cnp.PyArray_ITEMSIZE(ids) == 8
    view.is_signed = cnp.PyArray_ISSIGNED(ids)
    return view


cdef cnp.ndarray as_trace(object trace):
    """The ids as `as_ids` gives them; numbers for those that are no integers of 64 bits."""
    if isinstance(trace, (list, tuple)) and len(trace) and isinstance(trace[0], str):
        return numbers_of_objects(trace)  # as an array all would be as long as the longest
    cdef cnp.ndarray array = as_line(trace, "trace", "integers or strings")
    kind = array.dtype.kind
    if kind == "u" and cnp.PyArray_ITEMSIZE(array) == 8:
        return np.require(array, np.uint64, ["C", "A"]).view(np.int64)
    if kind in "iu" or array.size == 0:
        return as_ids(array, "trace")
    if kind in "OT" or not isinstance(trace, cnp.ndarray):
        return numbers_of_objects(array.tolist() if kind in "OT" else trace)
    if kind == "U":
        return numbers_of_texts(np.require(array, requirements=["C"]))
    raise TypeError(f"trace must hold integers or strings, not {array.dtype}")


cdef cnp.ndarray as_dense(cnp.ndarray ids, uint64_t& items):
    """The ids, or numbers for them, all below `items`, which is set."""
    cdef Ids view = view_of(ids)
    cdef uint64_t limit = min(<uint64_t> MOST_POLICY_ITEMS, SPARSE_IDS * <uint64_t> view.size)
    cdef int64_t bad = -1
    cdef int64_t most
    with nogil:
        most = largest_id(view, limit, bad)
    if bad < 0:
        (&items)[0] = most + 1
        return ids
    cdef cnp.ndarray numbers = np.empty(view.size, dtype=np.uint32)
    cdef uint32_t* target = <uint32_t*> cnp.PyArray_DATA(numbers)
    cdef uint64_t count
    with nogil:
        count = number_ids(view, MOST_POLICY_ITEMS, target)
    check_count(count)
    (&items)[0] = count
    return numbers


cdef cnp.ndarray numbers_of_texts(cnp.ndarray ids):
    cdef Texts view
    view.data = <const char*> cnp.PyArray_DATA(ids)
    view.size = cnp.PyArray_SIZE(ids)
    view.width = cnp.PyArray_ITEMSIZE(ids)
    cdef cnp.ndarray numbers = np.empty(view.size, dtype=np.uint32)
    cdef uint32_t* target = <uint32_t*> cnp.PyArray_DATA(numbers)
    cdef uint64_t count
    with nogil:
        count = number_texts(view, MOST_POLICY_ITEMS, target)
    check_count(count)
    return numbers


cdef cnp.ndarray numbers_of_objects(object trace):
    """Numbers of strings, or of integers of any size."""
    cdef tuple ids = tuple(trace)  # no other code reaches it
    cdef cnp.ndarray numbers = np.empty(len(ids), dtype=np.uint32)
    cdef uint32_t* target = <uint32_t*> cnp.PyArray_DATA(numbers)
    cdef dict known = {}
    cdef Py_ssize_t i
    for i in range(len(ids)):
        check_kind(ids[i], ids[0], i)
        target[i] = known.setdefault(ids[i], len(known))
    check_count(len(known))
    return numbers


cdef int check_kind(object value, object first, Py_ssize_t i) except -1:
    if isinstance(first, str):
        if isinstance(value, str):
            return 0
        allowed = "a string as the first is"
    else:
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            return 0
        allowed = "an integer as the first is" if i else "an integer or a string"
    raise TypeError(f"trace[{i}] must be {allowed}, not {type(value).__name__}")


cdef int check_count(uint64_t count) except -1:
    if count > MOST_POLICY_ITEMS:
        raise ValueError(f"trace has too many different ids: at most {MOST_POLICY_ITEMS} are allowed")
    return 0
