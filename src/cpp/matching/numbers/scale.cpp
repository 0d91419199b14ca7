#include "matching/numbers/scale.hpp"

#include <stdexcept>

namespace hivecore::matching {

void check(const Scale& scale) {
    if (scale.exponent < -1200 || scale.exponent > 1200 || scale.sense < -1 || scale.sense > 1 ||
        scale.offset < -4 * kMaxWeight || scale.offset > 4 * kMaxWeight) {
        throw std::invalid_argument("exponent, sense or offset is out of range");
    }
    if (scale.heaviest > kMaxWeight) {
        throw std::invalid_argument("a weight is above 2**59");
    }
}

std::vector<std::int64_t> scaled(const Numbers& weights, const Scale& scale) {
    check(scale);
    return std::visit(
        [&]<class T>(const Strided<T>& list) {
            const Scaler<T> scaled_weight(scale);
            std::vector<std::int64_t> counts(list.rows);
            bool fine = true;
            for (std::int64_t i = 0; i < list.rows; ++i) {
                counts[i] = scaled_weight(list.at(i));
                fine = fine && counts[i] <= scale.heaviest;
            }
            if (!fine) {
                throw std::invalid_argument("a weight is not finite or more than heaviest");
            }
            return counts;
        },
        weights);
}

std::optional<std::vector<std::int64_t>> scaled_exactly(std::span<const double> weights,
                                                        int exponent, std::int64_t heaviest) {
    const Scale scale{exponent, 1, 0, heaviest, 0};
    check(scale);
    const Scaler<double> scaler(scale);
    std::vector<std::int64_t> counts(weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) {
        counts[i] = scaler(weights[i]);
        const bool exact = static_cast<double>(counts[i]) == scaler.unrounded(weights[i]) &&
                           (counts[i] != 0 || weights[i] == 0);  // not by underflow
        const bool is_below = weights[i] < 0 && std::isfinite(weights[i]);
        if (counts[i] > heaviest || !(exact || is_below || counts[i] == kNoEdge)) {
            return std::nullopt;
        }
    }
    return counts;
}

}  // namespace hivecore::matching
