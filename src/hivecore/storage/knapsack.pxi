"""The cache that serves jobs best, and nothing else."""


cdef extern from "storage/knapsack.hpp" namespace "hivecore::storage" nogil:
    cdef cppclass Knapsack:
        double fill(Reals, Reals, double, Reals, double, vector[double]&) except +


cdef cnp.ndarray as_amounts(
    object values, str name, cnp.npy_intp length, double low, double high
):
    """A private one-dimensional float64 of this length (-1: any), within these limits."""
    cdef cnp.ndarray array
    cdef cnp.npy_intp i
    cdef const double* data
    try:
        array = values if isinstance(values, cnp.ndarray) else np.asarray(values)
    except ValueError:  # lists of several lengths
        raise ValueError(f"{name} must be an array of numbers") from None
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, not {array.ndim}")
    if cnp.PyArray_TYPE(array) != cnp.NPY_FLOAT64 or not cnp.PyArray_ISCARRAY_RO(array):
        if array.size and array.dtype.kind not in "fiu":
            raise TypeError(f"{name} must hold numbers, not {array.dtype}")
        array = np.require(array, np.float64, ["C", "A"])
    if array is values:
        array = array.copy()
    if length >= 0 and cnp.PyArray_SIZE(array) != length:
        raise ValueError(f"{name} has {array.size} elements, {length} are needed")
    data = <const double*> cnp.PyArray_DATA(array)
    for i in range(cnp.PyArray_SIZE(array)):
        if not low <= data[i] <= high:
            raise ValueError(f"{name}[{i}]={data[i]}: allowed are {low:g} to {high:g}")
    return array


cdef double as_amount_within(object value, str name, double low, double high) except? -1.0:
    cdef double number = value if type(value) is float else as_float(value, name)
    if not low <= number <= high:
        raise ValueError(f"{name}={number}: allowed are {low:g} to {high:g}")
    return number


cdef int check_quotas(cnp.ndarray quota, const double* most, str name) except -1:
    cdef const double* amount = <const double*> cnp.PyArray_DATA(quota)
    cdef cnp.npy_intp i
    for i in range(cnp.PyArray_SIZE(quota)):
        if amount[i] > most[i] * (1 + 1e-9):
            raise ValueError(f"{name}[{i}]={amount[i]}: a full cache holds {most[i]}")
    return 0


def greedy_cache(efficiency, datasets, capacity, current=None, eps=0.1):
    """The cache with the least demand for remote IO, from efficiencies: float64[m].

    What ``allocate_storage`` caches for "greedy", and nothing else, in some microseconds: for
    callers that decide at each event and keep efficiencies themselves.

    :param efficiency: float64[m], what each unit of a dataset in the cache saves, as by
        ``cache_efficiency``, 0 to 1e30; what saves nothing is not cached.
    :param datasets: float64[m], sizes in GB, or any other unit, 1e-9 to 1e18.
    :param capacity: of the cache, in that unit, 0 to 1e300.
    :param current: float64[m], what is cached now, at most the size: displaced only by what saves
        more than ``1 + eps`` times as much.
    :param eps: 0 to 1e6.
    :raises ValueError: a number out of range, or arrays of different lengths.
    :raises TypeError: what does not hold numbers.

    Ties break by lowest id, what is cached now first. Cost: O(m log m). Source: SiloD (EuroSys'23).

    >>> greedy_cache([0.2, 0.4, 0.0], [100.0, 60.0, 10.0], 90.0).tolist()
    [30.0, 60.0, 0.0]
    >>> greedy_cache([0.39, 0.4], [100.0, 60.0], 90.0, current=[90.0, 0.0]).tolist()
    [90.0, 0.0]
    """
    cdef Knapsack knapsack
    cdef vector[double] cached
    cdef cnp.ndarray sizes = as_amounts(datasets, "datasets", -1, 1e-9, 1e18)
    cdef cnp.npy_intp count = cnp.PyArray_SIZE(sizes)
    if count > 0x7FFFFFFF:
        raise ValueError(f"datasets has {count} elements, more than 2**31 - 1")
    cdef cnp.ndarray value = as_amounts(efficiency, "efficiency", count, 0.0, 1e30)
    cdef double room = as_amount_within(capacity, "capacity", 0.0, 1e300)
    cdef double margin = as_amount_within(eps, "eps", 0.0, 1e6)
    cdef cnp.ndarray kept
    cdef Reals held
    if current is not None:
        kept = as_amounts(current, "current", count, 0.0, INFINITY)
        check_quotas(kept, <const double*> cnp.PyArray_DATA(sizes), "current")
        kept = np.minimum(kept, sizes)
        held = as_real_span(kept)
    knapsack.fill(as_real_span(value), as_real_span(sizes), room, held, margin, cached)
    return hold_reals(cached)
