"""Cache and remote IO divided: whole arrays in, whole arrays out, the GIL released between."""

ctypedef span[const uint8_t] Flags


cdef extern from "storage/allocation.hpp" namespace "hivecore::storage" nogil:
    cdef enum class Objective:
        greedy
        throughput
        max_min
        finish_time
        fifo
        sjf
        given

    cdef enum class CacheChoice:
        pass

    cdef cppclass Column:
        Column()
        Column(Reals, double)

    cdef cppclass StorageProblem:
        Values dataset
        Reals rate
        Column weight
        Flags running
        Column effective
        Column remaining
        Column gpus
        Column elapsed
        Column elapsed_alone
        Reals size
        Reals current
        double cache
        double bandwidth
        double gpu_capacity
        double eps
        Objective objective
        IoMode io_mode

    cdef cppclass StorageSolution:
        vector[double] cache
        vector[double] remote_io
        vector[double] rates
        vector[double] demand
        vector[uint8_t] running
        vector[int64_t] order
        double multiplier
        double io_level
        double bound
        CacheChoice choice
        vector[double] levels
        vector[int64_t] bindings
        vector[int64_t] stage
        vector[double] reference

    StorageSolution solve "hivecore::storage::solve_storage"(const StorageProblem&) except +


cdef dict _OBJECTIVES = {
    "greedy": <int> Objective.greedy,
    "throughput": <int> Objective.throughput,
    "max_min": <int> Objective.max_min,
    "finish_time": <int> Objective.finish_time,
    "fifo": <int> Objective.fifo,
    "sjf": <int> Objective.sjf,
    "given": <int> Objective.given,
}


cdef Column as_column(object values, str name, cnp.npy_intp length, double otherwise) except *:
    """A column that may be None: `otherwise` for every job."""
    cdef Reals none
    return Column(none if values is None else as_reals(values, name, length), otherwise)


cdef cnp.ndarray as_flag_array(const vector[uint8_t]& values):
    cdef cnp.ndarray result = new_bool_array(values.size())
    if not values.empty():
        memcpy(cnp.PyArray_DATA(result), values.data(), values.size())
    return result


def solve_storage(
    dataset,
    rate,
    weight,
    running,
    effective,
    remaining,
    gpus,
    elapsed,
    elapsed_alone,
    size,
    current,
    double cache,
    double bandwidth,
    double gpu_capacity,
    str objective,
    str io_mode,
    double eps,
):
    """Share out cache and remote IO; `hivecore.storage.allocate_storage` checks the arguments.

    >>> solve_storage.__name__
    'solve_storage'
    """
    cdef StorageProblem problem
    cdef StorageSolution solution
    cdef cnp.ndarray ids = as_typed_array(dataset, "dataset", cnp.NPY_INT64, -1)
    cdef cnp.npy_intp n = cnp.PyArray_SIZE(ids)
    problem.dataset = as_values(ids)
    problem.rate = as_reals(rate, "rate", n)
    problem.weight = as_column(weight, "weight", n, 1.0)
    cdef cnp.ndarray runs
    if running is not None:
        runs = as_typed_array(running, "running", cnp.NPY_BOOL, n)
        problem.running = Flags(<const uint8_t*> cnp.PyArray_DATA(runs), <size_t> n)
    problem.effective = as_column(effective, "effective", n, float("inf"))
    problem.remaining = as_column(remaining, "remaining", n, 0.0)
    problem.gpus = as_column(gpus, "gpus", n, 0.0)
    problem.elapsed = as_column(elapsed, "elapsed", n, 0.0)
    problem.elapsed_alone = as_column(elapsed_alone, "elapsed_alone", n, 0.0)
    problem.size = as_reals(size, "size", -1)
    cdef cnp.npy_intp m = problem.size.size()
    if current is not None:
        problem.current = as_reals(current, "current", m)
    elif objective == "given":
        raise TypeError("current must be an array, not NoneType")
    check_range(ids, 0, m - 1, "dataset", 0)
    problem.cache = cache
    problem.bandwidth = bandwidth
    problem.gpu_capacity = gpu_capacity
    problem.eps = eps
    problem.objective = <Objective> <int> _OBJECTIVES[objective]
    problem.io_mode = <IoMode> <int> _IO_MODES[io_mode]
    with nogil:
        solution = solve(problem)
    return (
        hold_reals(solution.cache),
        hold_reals(solution.remote_io),
        hold_reals(solution.rates),
        hold_reals(solution.demand),
        as_flag_array(solution.running),
        as_array(solution.order),
        solution.multiplier,
        solution.io_level,
        solution.bound,
        <int> solution.choice,
        hold_reals(solution.levels).tolist(),
        as_array(solution.bindings).tolist(),
        as_array(solution.stage),
        hold_reals(solution.reference),
    )
