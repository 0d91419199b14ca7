// A caller's array as it lies in memory: numbers of any type, any strides, also zero and negative.
//
// So views, transposes and slices are read without a copy. The type is resolved once per pass over
// an array, by std::visit, never per number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>

namespace hivecore::matching {

template <class T>
struct Strided {
    using Value = T;

    const std::byte* first;  // aligned for T, as both strides are
    std::int64_t rows;
    std::int64_t columns;  // 1: a list
    std::int64_t down;     // bytes from one row to the next
    std::int64_t across;   // bytes from one column to the next

    T at(std::int64_t row, std::int64_t column = 0) const {
        return *reinterpret_cast<const T*>(first + row * down + column * across);
    }
    Strided transposed() const { return {first, columns, rows, across, down}; }
};

using Numbers =
    std::variant<Strided<std::int8_t>, Strided<std::int16_t>, Strided<std::int32_t>,
                 Strided<std::int64_t>, Strided<std::uint8_t>, Strided<std::uint16_t>,
                 Strided<std::uint32_t>, Strided<std::uint64_t>, Strided<float>, Strided<double>>;

}  // namespace hivecore::matching
