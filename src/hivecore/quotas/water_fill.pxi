"""An amount divided among children."""


ctypedef span[const uint8_t] Flags


cdef extern from "quotas/water_fill.hpp" namespace "hivecore::quotas" nogil:
    cdef cppclass Claims:
        Values request
        Values minimum
        Values weight
        Flags lends

    cdef cppclass WaterFillRound "hivecore::quotas::WaterFill::Round":
        int64_t amount
        vector[int32_t] children
        vector[int64_t] shares

    cdef cppclass WaterFill:
        WaterFill() except +
        void fill(int64_t, const Claims&, Batch) except +
        vector[WaterFillRound]* rounds

    void fill_all(Values, const Claims&, Batch) except +

    const int64_t MOST "hivecore::quotas::kMost"


cdef extern from "common/spans.hpp" namespace "hivecore" nogil:
    bool_t are_within(Values, int64_t) noexcept


cdef cnp.ndarray as_rows(object values, str name, object shape):
    """Amounts as a contiguous array of int64; with a shape: of this one."""
    array = np.ascontiguousarray(values)
    check_integers(array, name)
    array = array.astype(np.int64, copy=False)
    if array.ndim != 2 or (shape is not None and array.shape != shape):
        raise ValueError(f"{name} must have shape {shape}, not {array.shape}")
    if not are_within(as_values(array), MOST):
        raise ValueError(f"{name}: allowed are 0 to {MOST}")
    return array


cdef list describe_rounds(const vector[WaterFillRound]& rounds):
    """An (amount, children, shares) for each."""
    cdef size_t i, k
    described = []
    for i in range(rounds.size()):
        children = [rounds[i].children[k] for k in range(rounds[i].children.size())]
        shares = [rounds[i].shares[k] for k in range(rounds[i].shares.size())]
        described.append((rounds[i].amount, children, shares))
    return described


def fill_water(amounts, requests, minimums, weights, lends):
    """fill_water(amounts, requests, minimums, weights, lends)\n--\n\nThe runtimes, int64[dimensions, children].

    :param amounts: int64[dimensions].
    :param requests: int64[dimensions, children]; ``minimums`` and ``weights`` likewise.
    :param lends: bool[children].
    """
    cdef cnp.ndarray totals = as_rows([amounts], "amounts", None)
    cdef cnp.ndarray request = as_rows(requests, "requests", None)
    cdef tuple shape = (request.shape[0], request.shape[1])
    cdef cnp.ndarray minimum = as_rows(minimums, "minimums", shape)
    cdef cnp.ndarray weight = as_rows(weights, "weights", shape)
    cdef cnp.ndarray lent = np.ascontiguousarray(lends, dtype=np.bool_)
    if totals.shape[1] != shape[0]:
        raise ValueError(f"amounts must have length {shape[0]}, not {totals.shape[1]}")
    if lent.ndim != 1 or lent.shape[0] != shape[1]:
        raise ValueError(f"lends must have length {shape[1]}")
    result = np.empty(shape, dtype=np.int64)
    cdef cnp.ndarray runtime = result
    cdef Claims claims
    claims.request = as_values(request)
    claims.minimum = as_values(minimum)
    claims.weight = as_values(weight)
    claims.lends = Flags(<const uint8_t*> cnp.PyArray_DATA(lent), <size_t> shape[1])
    cdef Values available = as_values(totals)
    cdef Batch to = as_batch(runtime)
    with nogil:
        fill_all(available, claims, to)
    return result


def water_rounds(amount, requests, minimums, weights, lends):
    """water_rounds(amount, requests, minimums, weights, lends)\n--\n\nThe rounds of one dimension, as (amount, children, shares)."""
    cdef cnp.ndarray request = as_rows([requests], "requests", None)
    cdef tuple shape = (1, request.shape[1])
    cdef cnp.ndarray minimum = as_rows([minimums], "minimums", shape)
    cdef cnp.ndarray weight = as_rows([weights], "weights", shape)
    cdef cnp.ndarray lent = np.ascontiguousarray(lends, dtype=np.bool_)
    if lent.ndim != 1 or lent.shape[0] != shape[1]:
        raise ValueError(f"lends must have length {shape[1]}")
    cdef cnp.ndarray runtime = np.empty(shape, dtype=np.int64)
    cdef WaterFill water
    cdef Claims claims
    cdef vector[WaterFillRound] rounds
    claims.request = as_values(request)
    claims.minimum = as_values(minimum)
    claims.weight = as_values(weight)
    claims.lends = Flags(<const uint8_t*> cnp.PyArray_DATA(lent), <size_t> shape[1])
    water.rounds = &rounds
    water.fill(as_bounded(amount, "amount", 0, MOST), claims, as_batch(runtime))
    return describe_rounds(rounds)
