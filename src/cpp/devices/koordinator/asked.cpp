#include "devices/koordinator/asked.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

namespace hivecore::devices::koordinator {
namespace {

constexpr std::int64_t kAnything = std::numeric_limits<std::int64_t>::min();
constexpr std::array<std::pair<int, std::int64_t>, 3> kWorth{{{8, 10'000}, {4, 100}, {2, 1}}};

AskedNeed ask(const Need& need, const DeviceColumn& column) {
    AskedNeed asked;
    for (int amount = 0; amount < kAmounts; ++amount) {
        if (need.amounts[amount] == 0) {
            continue;
        }
        asked.names |= static_cast<std::uint8_t>(1U << amount);
        const int c = column.column_of[amount];
        if (c < 0) {
            continue;
        }
        asked.columns.push_back(static_cast<std::int8_t>(c));
        for (int i = 0; i < column.count; ++i) {
            const bool is_limited = column.total[c * column.count + i] > 0;
            asked.least.push_back(is_limited ? need.amounts[amount] : kAnything);
        }
    }
    asked.functions.resize(column.function_words);
    for (int i = 0; i < column.count; ++i) {
        if (matches(need.selector, column.labels[i])) {
            asked.matching.add(i);
        }
        for (int f = column.first_function[i]; f < column.first_function[i + 1]; ++f) {
            if (need.functions && matches(need.function_selector, column.function_labels[f])) {
                asked.functions[f / 64] |= std::uint64_t{1} << (f % 64);
            }
        }
    }
    return asked;
}

// The score of the tier that is taken first; none: no partition is of this size.
std::optional<std::int64_t> first_tier(const Shape& shape, int size, bool lowest) {
    std::optional<std::int64_t> first;
    for (const auto& row : shape.partitions()) {
        if (row.size == size && (!first || (lowest ? row.score < *first : row.score > *first))) {
            first = row.score;
        }
    }
    return first;
}

}  // namespace

Asked::Asked(const Request& request, const Shape& shape, Quirks quirks) : board(shape) {
    for (const auto& need : request.needs) {
        needs.push_back(ask(need, shape.of(need.type)));
        if (need.type != kGpu) {
            continue;
        }
        gpus = static_cast<int>(needs.size()) - 1;
        shared = need.is_shared();
        isolated = !shared || request.isolation == 0 || request.isolation == shape.isolation();
        admitted = shape.sharing().admit(need);
        template_name = shape.sharing().template_of(need);
        const bool lowest = (quirks & kLowestTierFirst) != 0;
        const auto first = first_tier(shape, need.count, lowest);
        has_table = shape.raw_facts().has_table;
        has_size = first.has_value();
        must_be_row = shape.honor() || request.partition != Partition::kAsTheNodeSays;
        for (const auto& row : shape.partitions()) {
            const bool slow = request.bandwidth > row.bandwidth;
            const bool later = request.partition == Partition::kRestricted && row.score != first;
            if (row.size == need.count && !slow && !later) {
                rows.push_back({row.members, lowest ? row.score : -row.score, 0});
            }
        }
        std::ranges::stable_sort(rows, {}, &AskedRow::tier);
        for (const auto& [size, worth] : kWorth) {
            const auto best = first_tier(shape, size, lowest);
            for (const auto& row : shape.partitions()) {
                if (size >= need.count && row.size == size && row.score == best) {
                    residual.push_back({row.members, 0, worth * row.score});
                }
            }
        }
    }
}

std::uint64_t Asked::bytes() const {
    std::uint64_t sum = sizeof *this + sizeof(AskedRow) * (rows.capacity() + residual.capacity());
    for (const auto& need : needs) {
        sum += sizeof need + 8 * (need.least.capacity() + need.functions.capacity());
    }
    for (const auto& numa : board.numas) {
        sum += sizeof numa + sizeof(WideMask) * numa.switches.capacity();
    }
    return sum;
}

}  // namespace hivecore::devices::koordinator
