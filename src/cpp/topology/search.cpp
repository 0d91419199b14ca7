#include "topology/search.hpp"

#include <utility>

#include "common/cpu.hpp"

namespace hivecore::topology {
namespace {

// What it costs to have room for each number of pods if a node may be used that has so many slots.
template <int kWords>
HIVECORE_INLINE void use_node(const Cost<kWords>* __restrict behind, Cost<kWords>* __restrict row,
                              std::int64_t pods, std::int64_t slots, const Cost<kWords>& touched) {
    row[0] = behind[0];
    const auto all = behind[0] + touched;
    const auto full = std::min(slots, pods);
    for (std::int64_t c = 1; c <= full; ++c) {
        row[c] = std::min(behind[c], all);
    }
    for (std::int64_t c = full + 1; c <= pods; ++c) {
        row[c] = std::min(behind[c], behind[c - full] + touched);
    }
}

HIVECORE_INLINE void use_node_simply(const std::int64_t* __restrict behind,
                                     std::int64_t* __restrict row, std::int64_t pods,
                                     std::int64_t slots, std::int64_t touched) {
    row[0] = behind[0];
    const auto all = behind[0] + touched;
    const auto full = std::min(slots, pods);
    for (std::int64_t c = 1; c <= full; ++c) {
        row[c] = behind[c] < all ? behind[c] : all;
    }
    for (std::int64_t c = full + 1; c <= pods; ++c) {
        const auto sum = behind[c - full] + touched;
        row[c] = behind[c] < sum ? behind[c] : sum;
    }
}

HIVECORE_INLINE void use_domain_simply(const std::int64_t* __restrict inside,
                                       std::int64_t* __restrict row, std::int64_t pods,
                                       std::int64_t touched) {
    for (std::int64_t c = 1; c <= pods; ++c) {
        const auto sum = inside[c] + touched;
        row[c] = row[c] < sum ? row[c] : sum;
    }
}

HIVECORE_INLINE void use_part_simply(const std::int64_t* __restrict behind,
                                     std::int64_t* __restrict row, std::int64_t pods,
                                     std::int64_t most, std::int64_t touched) {
    const auto full = std::min(most, pods);
    const auto all = behind[0] + touched;
    for (std::int64_t c = 0; c <= full; ++c) {
        row[c] = row[c] < all ? row[c] : all;
    }
    for (std::int64_t c = full + 1; c <= pods; ++c) {
        const auto sum = behind[c - full] + touched;
        row[c] = row[c] < sum ? row[c] : sum;
    }
}

#ifdef HIVECORE_X86
__attribute__((target("avx2"))) void use_part_avx2(const std::int64_t* behind, std::int64_t* row,
                                                   std::int64_t pods, std::int64_t most,
                                                   std::int64_t touched) {
    use_part_simply(behind, row, pods, most, touched);
}

__attribute__((target("avx2"))) void use_node_avx2(const std::int64_t* behind, std::int64_t* row,
                                                   std::int64_t pods, std::int64_t slots,
                                                   std::int64_t touched) {
    use_node_simply(behind, row, pods, slots, touched);
}

__attribute__((target("avx2"))) void use_domain_avx2(const std::int64_t* inside, std::int64_t* row,
                                                     std::int64_t pods, std::int64_t touched) {
    use_domain_simply(inside, row, pods, touched);
}
#endif

void use_node(const Cost<1>* behind, Cost<1>* row, std::int64_t pods, std::int64_t slots,
              const Cost<1>& touched) {
    const auto* from = behind->words.data();
    auto* to = row->words.data();
#ifdef HIVECORE_X86
    if (has_avx2()) {
        return use_node_avx2(from, to, pods, slots, touched.words[0]);
    }
#endif
    use_node_simply(from, to, pods, slots, touched.words[0]);
}

// In a row of pods, what it costs if up to `most` of them are on a node that is used.
template <int kWords>
void use_part(const Cost<kWords>* behind, Cost<kWords>* row, std::int64_t pods, std::int64_t most,
              const Cost<kWords>& touched) {
    for (std::int64_t c = 0; c <= pods; ++c) {
        row[c] = std::min(row[c], behind[std::max<std::int64_t>(c - most, 0)] + touched);
    }
}

void use_part(const Cost<1>* behind, Cost<1>* row, std::int64_t pods, std::int64_t most,
              const Cost<1>& touched) {
    const auto* from = behind->words.data();
    auto* to = row->words.data();
#ifdef HIVECORE_X86
    if (has_avx2()) {
        return use_part_avx2(from, to, pods, most, touched.words[0]);
    }
#endif
    use_part_simply(from, to, pods, most, touched.words[0]);
}

template <int kWords>
void use_domain(const Cost<kWords>* inside, Cost<kWords>* row, std::int64_t pods,
                const Cost<kWords>& touched) {
    for (std::int64_t c = 1; c <= pods; ++c) {
        row[c] = std::min(row[c], inside[c] + touched);
    }
}

void use_domain(const Cost<1>* inside, Cost<1>* row, std::int64_t pods, const Cost<1>& touched) {
    const auto* from = inside->words.data();
    auto* to = row->words.data();
#ifdef HIVECORE_X86
    if (has_avx2()) {
        return use_domain_avx2(from, to, pods, touched.words[0]);
    }
#endif
    use_domain_simply(from, to, pods, touched.words[0]);
}

template <int kWords>
bool is_possible(const Cost<kWords>& cost) {
    return cost.words[0] < kImpossible;
}

}  // namespace

template <int kWords>
Search<kWords>::Search(const Network& network, const Sums& slots, const Sums& existing,
                       const Wish& wish, int held, const CostLayout& layout,
                       std::span<const std::int64_t> most_existing)
    : network_(network),
      slots_(slots),
      existing_(existing),
      wish_(wish),
      held_(held),
      layout_(layout),
      most_existing_(most_existing),
      inner_(network.deepest() + 2) {}

// What is added when a domain is touched.
template <int kWords>
Cost<kWords> Search<kWords>::touch(int level, std::int32_t domain) const {
    Cost<kWords> cost;
    const int levels = network_.deepest() - held_, place = level - held_ - 1;
    int field = 0;
    layout_.put(cost, place, 1);
    field += levels;
    if (!existing_.empty()) {
        layout_.put(cost, field + place, most_existing_[level] - existing_[level][domain]);
        field += levels;
    }
    if (!wish_.cost.empty()) {
        if (level == network_.deepest()) {
            layout_.put(cost, field, wish_.cost[domain]);
        }
        ++field;
    }
    layout_.put(cost, field + place, slots_[level][domain]);
    return cost;
}

template <int kWords>
Search<kWords>::Row Search<kWords>::empty_row() const {
    Cost<kWords> impossible;
    impossible.words[0] = kImpossible;
    Row row(last_cell() + 1, impossible);
    row[0] = {};
    return row;
}

template <int kWords>
void Search<kWords>::sweep(int level, std::int32_t begin, std::int32_t end, Row& row, int depth) {
    for (auto domain = end; domain-- > begin;) {
        if (slots_[level][domain] > 0) {
            sweep_one(level, domain, row, depth);
        }
    }
}

template <int kWords>
void Search<kWords>::sweep_one(int level, std::int32_t domain, Row& row, int depth) {
    const auto pods = wish_.pods;
    const auto touched = touch(level, domain);
    if (level == network_.deepest()) {
        const auto slots = std::min(slots_[level][domain], limit(level));
        if (wish_.others > 0) {
            return use_options(domain, touched, row);
        }
        if (const auto step = multiple(level); step == 1) {
            use_node(row.data(), other_.data(), pods, slots, touched);
        } else {
            other_ = row;
            for (std::int64_t c = step; c <= pods; ++c) {
                for (auto part = step; part <= std::min(slots, c); part += step) {
                    other_[c] = std::min(other_[c], row[c - part] + touched);
                }
            }
        }
        row.swap(other_);
        return;
    }
    auto& inside = inner_[depth];
    if (is_free(level)) {
        inside = row;
        sweep(level + 1, network_.first_child(level, domain), network_.end_child(level, domain),
              inside, depth + 1);
        use_domain(inside.data(), row.data(), static_cast<std::int64_t>(last_cell()), touched);
    } else {
        inside_row(level, domain, inside, depth);
        add_parts(inside, touched, multiple(level), limit(level), row);
    }
}

template <int kWords>
void Search<kWords>::use_options(std::int32_t node, const Cost<kWords>& touched, Row& row) {
    other_ = row;
    const auto width = wish_.pods + 1;
    for (const auto& option : options(node)) {
        for (std::int64_t others = 0; others <= wish_.others; ++others) {
            const auto before = std::max<std::int64_t>(others - option.others, 0);
            use_part(row.data() + before * width, other_.data() + others * width, wish_.pods,
                     option.pods, touched);
        }
    }
    other_[0] = row[0];
    row.swap(other_);
}

// What it costs to have each number of pods in a domain, beside touching it.
template <int kWords>
void Search<kWords>::inside_row(int level, std::int32_t domain, Row& row, int depth) {
    row = empty_row();
    other_.resize(row.size());
    sweep(level + 1, network_.first_child(level, domain), network_.end_child(level, domain), row,
          depth + 1);
}

// The domain gets any multiple of the step up to the most, those behind it the rest.
template <int kWords>
void Search<kWords>::add_parts(const Row& inside, const Cost<kWords>& touched, std::int64_t step,
                               std::int64_t most, Row& row) {
    for (auto c = wish_.pods; c >= step; --c) {
        for (auto part = step; part <= std::min(c, most); part += step) {
            if (is_possible(inside[part]) && is_possible(row[c - part])) {
                row[c] = std::min(row[c], row[c - part] + inside[part] + touched);
            }
        }
    }
}

template <int kWords>
Cost<kWords> Search<kWords>::cost(std::int32_t domain) {
    Cost<kWords> impossible;
    impossible.words[0] = kImpossible;
    if (slots_[held_][domain] < wish_.pods + wish_.others || wish_.pods % multiple(held_) != 0 ||
        limit(held_) < wish_.pods) {
        return impossible;
    }
    if (held_ == network_.deepest()) {
        const bool serves =
            wish_.others == 0 || std::ranges::any_of(options(domain), [&](const Option& option) {
                return option.pods >= wish_.pods && option.others >= wish_.others;
            });
        return serves ? Cost<kWords>() : impossible;
    }
    auto& row = inner_[0];
    inside_row(held_, domain, row, 0);
    return row.back();
}

template <int kWords>
std::vector<NodePods> Search<kWords>::pods(std::int32_t domain) {
    std::vector<NodePods> placed;
    if (held_ == network_.deepest()) {
        placed.push_back({domain, wish_.pods, wish_.others});
    } else {
        Need need{wish_.pods, wish_.others};
        const auto behind = empty_row();
        other_.resize(behind.size());
        retrace(held_ + 1, network_.first_child(held_, domain), network_.end_child(held_, domain),
                behind, need, placed);
    }
    return placed;
}

// Which of these domains get how many of the pods, some of which may be for those behind them,
// whose row this is. Half of them are tried, then the others with what is left.
template <int kWords>
void Search<kWords>::retrace(int level, std::int32_t begin, std::int32_t end, const Row& behind,
                             Need& need, std::vector<NodePods>& placed) {
    if (cell(need) == 0 || begin == end) {
        return;
    }
    if (end - begin == 1) {
        return retrace_one(level, begin, behind, need, placed);
    }
    const auto middle = begin + (end - begin) / 2;
    Row row = behind;
    sweep(level, middle, end, row, 0);
    retrace(level, begin, middle, row, need, placed);
    retrace(level, middle, end, behind, need, placed);
}

template <int kWords>
void Search<kWords>::retrace_one(int level, std::int32_t domain, const Row& behind, Need& need,
                                 std::vector<NodePods>& placed) {
    const auto slots = slots_[level][domain];
    const auto step = multiple(level), most = limit(level);
    const bool is_node = level == network_.deepest();
    if (slots == 0) {
        return;
    }
    if (is_node && wish_.others > 0) {
        return retrace_options(domain, behind, need, placed);
    }
    const auto first = is_node ? 0 : network_.first_child(level, domain);
    const auto last = is_node ? 0 : network_.end_child(level, domain);
    if (!is_node && is_free(level)) {
        Row inside = behind;
        sweep(level + 1, first, last, inside, 0);
        if (inside[cell(need)] + touch(level, domain) <= behind[cell(need)]) {
            retrace(level + 1, first, last, behind, need, placed);
        }
        return;
    }
    const auto pods = need.pods;  // where multiples are, there are no others
    Row inside;
    if (!is_node) {
        inside_row(level, domain, inside, 0);
    }
    auto best = behind[pods];
    std::int64_t taken = 0;
    const auto full = std::min({slots, pods, most}) / step * step;
    for (auto part = full; part > 0; part -= step) {
        auto sum = behind[pods - part] + touch(level, domain);
        if (!is_node) {
            sum = sum + inside[part];
        }
        if (sum < best || (sum == best && taken == 0)) {
            best = sum;
            taken = part;
        }
        if (is_node && step == 1) {
            break;
        }
    }
    need.pods -= taken;
    if (is_node && taken > 0) {
        placed.push_back({domain, taken, 0});
    } else if (taken > 0) {
        Need all{taken, 0};  // of them are inside
        retrace(level + 1, first, last, empty_row(), all, placed);
    }
}

// Of the best ways to use a node, or not, that one with most others, then most pods on it.
template <int kWords>
void Search<kWords>::retrace_options(std::int32_t node, const Row& behind, Need& need,
                                     std::vector<NodePods>& placed) {
    auto best = behind[cell(need)];
    Need taken{0, 0};
    for (const auto& option : options(node)) {
        const Need part{std::min(option.pods, need.pods), std::min(option.others, need.others)};
        if (cell(part) == 0) {
            continue;
        }
        const Need left{need.pods - part.pods, need.others - part.others};
        const auto sum = behind[cell(left)] + touch(network_.deepest(), node);
        if (sum < best || (sum == best && std::pair(part.others, part.pods) >
                                              std::pair(taken.others, taken.pods))) {
            best = sum;
            taken = part;
        }
    }
    need = {need.pods - taken.pods, need.others - taken.others};
    if (cell(taken) != 0) {
        placed.push_back({node, taken.pods, taken.others});
    }
}

template class Search<1>;
template class Search<2>;
template class Search<4>;
template class Search<8>;
template class Search<16>;
template class Search<32>;
template class Search<128>;

}  // namespace hivecore::topology
