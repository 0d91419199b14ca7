// The decisions of a cluster that decides as Koordinator does.
#include "devices/cluster.hpp"

#include <algorithm>

#include "devices/koordinator/allocator.hpp"

namespace hivecore::devices {
namespace {

// Calls `visit` with an allocator of the width that the shape's masks have.
template <class Visit>
auto with_allocator(const Request& request, const koordinator::Asked& asked, const Shape& shape,
                    const std::uint64_t* words, koordinator::Quirks quirks, const Visible* visible,
                    Visit visit) {
    if (shape.mask_words() == 1) {
        koordinator::Allocator<1> allocator(request, asked, shape, words, quirks, visible);
        return visit(allocator);
    }
    koordinator::Allocator<kMostDevices / 64> allocator(request, asked, shape, words, quirks,
                                                        visible);
    return visit(allocator);
}

}  // namespace

const koordinator::Asked& DeviceCluster::asked(Query& query, std::int32_t shape) const {
    if (query.asked.size() <= static_cast<std::size_t>(shape)) {
        query.asked.resize(states_.shapes());
    }
    auto& found = query.asked[shape];
    if (!found) {
        found = std::make_unique<koordinator::Asked>(query.request, states_.shape(shape), quirks_);
    }
    return *found;
}

Answer DeviceCluster::answer_of_koordinator(Query& query, Policy policy, StateId state) {
    const auto number = states_.shape_of(state);
    Answer answer;
    answer.born = states_.born(state);
    with_allocator(query.request, asked(query, number), states_.shape(number), states_.words(state),
                   quirks_, nullptr, [&](auto& allocator) {
                       const auto verdict = allocator.verdict(policy);
                       answer.code = verdict.code;
                       answer.type = verdict.type;
                       answer.resolvable = koordinator::is_resolvable(verdict.code);
                       if (verdict.code == Code::kFits) {
                           answer.score = static_cast<std::int32_t>(allocator.score(policy));
                       }
                   });
    return answer;
}

std::vector<Charge> DeviceCluster::charges_of_koordinator(Query& query, Policy policy,
                                                          std::int32_t number,
                                                          const std::uint64_t* words,
                                                          const Visible* visible, bool& idle) {
    const auto& request = query.request;
    const auto& shape = states_.shape(number);
    const auto& known = asked(query, number);
    idle = known.must_be_row && !known.shared;
    std::vector<Charge> charges;
    with_allocator(request, known, shape, words, quirks_, visible, [&](auto& allocator) {
        allocator.reserve(policy, [&](int i, int device, int function) {
            const auto& need = request.needs[i];
            const auto& column = shape.of(need.type);
            charges.push_back({need.type, Exclusive::kNo, column.minors[device],
                               function < 0 ? -1 : column.function_names[function],
                               need.type == kGpu ? *known.template_name : kNoTemplate,
                               koordinator::with_all_memory(need, column, device)});
        });
    });
    return charges;
}

Verdict DeviceCluster::examine_as_koordinator(Query& query, Policy policy, std::int32_t number,
                                              const std::uint64_t* words, const Visible* visible,
                                              std::vector<Charge>* charges, bool* idle) {
    const auto verdict =
        with_allocator(query.request, asked(query, number), states_.shape(number), words, quirks_,
                       visible, [&](auto& allocator) { return allocator.verdict(policy); });
    if (verdict.code == Code::kFits && charges != nullptr) {
        *charges = charges_of_koordinator(query, policy, number, words, visible, *idle);
    }
    return verdict;
}

bool DeviceCluster::is_still_free(const Query& query, std::int32_t node,
                                  std::span<const Charge> charges, bool idle) {
    if (nodes_[node].state < 0) {
        return false;
    }
    const auto& shape = states_.shape(nodes_[node].shape);
    const auto* words = states_.words(nodes_[node].state);
    return std::ranges::all_of(charges, [&](const Charge& charge) {
        const int device = shape.find(charge.type, charge.minor);
        const auto need = std::ranges::find(query.request.needs, charge.type, &Need::type);
        const auto& column = shape.of(charge.type);
        if (device < 0 || need == query.request.needs.end() ||
            !has_bit(words, column.healthy, device)) {
            return false;
        }
        if (charge.type == kGpu && shape.sharing().template_of(*need) != charge.template_name) {
            return false;
        }
        if (charge.function >= 0) {
            const auto begin = column.function_names.begin() + column.first_function[device];
            const auto end = column.function_names.begin() + column.first_function[device + 1];
            const auto found = std::find(begin, end, charge.function);
            const auto at = static_cast<int>(found - column.function_names.begin());
            if (found == end || has_bit(words, column.functions, at)) {
                return false;
            }
        }
        if (!has_bit(words, column.raw.partly, device)) {
            return true;
        }
        if (idle && charge.type == kGpu) {
            return false;
        }
        const unsigned spent = koordinator::named(column, words, device);
        for (int amount = 0; amount < kAmounts; ++amount) {
            const int c = column.column_of[amount];
            const auto at = c * column.count + device;
            const auto total = c < 0 ? 0 : column.total[at];
            const auto used = c < 0 ? 0 : static_cast<std::int64_t>(words[column.used + at]);
            const bool is_short =
                total > 0 ? need->amounts[amount] > total - used : (spent >> amount & 1) != 0;
            if (need->amounts[amount] > 0 && is_short) {
                return false;
            }
        }
        return true;
    });
}

}  // namespace hivecore::devices
