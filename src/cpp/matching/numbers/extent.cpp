#include "matching/numbers/extent.hpp"

namespace hivecore::matching {

Extent extent_of(const Numbers& weights, Grid grid) {
    return std::visit(
        [grid]<class T>(const Strided<T>& list) {
            if (list.rows == 0) {
                return Extent{};
            }
            constexpr std::int64_t kLanes = Survey<T>::kLanes;
            Survey<T> survey(list.at(0), grid);
            T some[kLanes];
            for (std::int64_t i = 0; i < list.rows; i += kLanes) {
                for (std::int64_t j = 0; j < kLanes; ++j) {
                    some[j] = list.at(i + j < list.rows ? i + j : 0);
                }
                survey.take(some);
            }
            return survey.extent();
        },
        weights);
}

}  // namespace hivecore::matching
