// From the caller's symmetric array to the matrix of the dense engine, without a copy in between.
//
// Both passes look at square tiles above the diagonal, together with their mirror images below:
// small enough that both stay in the cache, whatever the order of the array. The first tells what
// the weights are like, from which the caller chooses a scale; the second counts them by it.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "matching/numbers/extent.hpp"
#include "matching/numbers/numbers.hpp"
#include "matching/numbers/scale.hpp"

namespace hivecore::matching {

struct DenseSurvey {
    std::optional<std::pair<std::int64_t, std::int64_t>> asymmetric;  // the first in row order
    std::int64_t edges = 0;  // pairs that are not NaN; of an asymmetric array unspecified, as ...
    Extent extent;           // ... of the weights off the diagonal
};

// Of a square array. NaN is symmetric to NaN.
DenseSurvey survey_dense(const Numbers& weights, Grid grid);

// Doubles the weights as they count into a symmetric matrix, row after row; `absent` on the
// diagonal, for NaN and for what counts 0 or less. Each pair is read once, so that the matrix is
// symmetric even while another thread writes to the array. Throws std::invalid_argument
// for a weight that is not finite, above 2^59 before the offset, or above scale.heaviest.
template <class Lane>
void write_doubled(const Numbers& weights, const Scale& scale, Lane absent, Lane* matrix);

}  // namespace hivecore::matching
