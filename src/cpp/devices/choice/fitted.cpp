#include "devices/choice/fitted.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace hivecore::devices {
namespace {

constexpr std::array<std::pair<int, std::int64_t>, 3> kResidualWeights{
    {{2, 1}, {4, 100}, {8, 10'000}}};

// What the device would be charged, in its own unit of memory; false: it lacks something.
bool charge_of(const Need& need, const DeviceColumn& column, int device, Amounts& charge) {
    charge = need.amounts;
    const auto total = [&](int amount) {
        const int c = column.column_of[amount];
        return c < 0 ? 0 : column.total[c * column.count + device];
    };
    if (need.type == kGpu && charge[kMemoryRatio] > 0 && total(kMemory) > 0 &&
        total(kMemoryRatio) == 0) {
        charge[kMemory] = charge[kMemoryRatio] * total(kMemory) / 100;
        charge[kMemoryRatio] = 0;
    }
    for (int amount = 0; amount < kAmounts; ++amount) {
        if (charge[amount] > total(amount)) {
            return false;
        }
    }
    return true;
}

FittedNeed fit(const Need& need, const DeviceColumn& column) {
    FittedNeed fitted;
    fitted.charge.resize(static_cast<std::size_t>(column.columns) * column.count);
    fitted.functions.resize(column.function_words);
    std::array<bool, kAmounts> is_used{};
    for (int device = 0; device < column.count; ++device) {
        Amounts charge;
        if (!matches(need.selector, column.labels[device])) {
            continue;
        }
        fitted.labelled.add(device);
        if (!charge_of(need, column, device, charge)) {
            continue;
        }
        fitted.matching.add(device);
        bool all = true;
        for (int amount = 0; amount < kAmounts; ++amount) {
            if (const int c = column.column_of[amount]; c >= 0) {
                const auto at = c * column.count + device;
                fitted.charge[at] = charge[amount];
                all &= charge[amount] == column.total[at];
                is_used[c] |= charge[amount] > 0;
            }
        }
        if (all) {
            fitted.takes_all.add(device);
        }
        if (!need.functions) {
            fitted.with_functions.add(device);
            continue;
        }
        for (int f = column.first_function[device]; f < column.first_function[device + 1]; ++f) {
            if (matches(need.function_selector, column.function_labels[f])) {
                fitted.functions[f / 64] |= std::uint64_t{1} << (f % 64);
                fitted.with_functions.add(device);
            }
        }
    }
    for (int c = 0; c < column.columns; ++c) {
        if (is_used[c]) {
            fitted.columns.push_back(static_cast<std::int8_t>(c));
        }
    }
    return fitted;
}

std::int64_t best_score(const std::vector<PartitionRow>& rows) {
    std::int64_t best = 0;
    for (const auto& row : rows) {
        best = std::max(best, row.score);
    }
    return best;
}

// How many sets of one size there are.
std::size_t sets_of(int devices, int size) {
    std::size_t sets = 1;
    for (int i = 0; i < size; ++i) {
        sets = sets * (devices - i) / (i + 1);
    }
    return sets;
}

}  // namespace

int slots_of(const Need& need, const FittedNeed& fitted, const DeviceColumn& column, int device,
             const std::uint64_t* state) {
    std::int64_t slots = need.count;
    for (const int c : fitted.columns) {
        const auto at = c * column.count + device;
        const auto used = state == nullptr ? 0 : static_cast<std::int64_t>(state[column.used + at]);
        if (const auto charge = fitted.charge[at]; charge > 0) {
            slots = std::min(slots, std::max<std::int64_t>(column.total[at] - used, 0) / charge);
        }
    }
    const bool in_use =
        state != nullptr && (state[column.in_use + device / 64] >> (device % 64) & 1) != 0;
    bool is_all = in_use && slots > 0;
    for (int c = 0; is_all && c < column.columns; ++c) {
        const auto at = c * column.count + device;
        is_all = slots * fitted.charge[at] == column.total[at];
    }
    return static_cast<int>(is_all ? slots - 1 : slots);  // all of it takes an idle device
}

std::vector<int> times_of(const Need& need, const FittedNeed& fitted, const DeviceColumn& column,
                          const std::uint64_t* state, const WideMask& devices,
                          const WideMask& first) {
    std::vector<int> times(column.count);
    int missing = need.count;
    const auto take = [&](int device) {
        times[device] = std::min(slots_of(need, fitted, column, device, state), missing);
        missing -= times[device];
    };
    (devices & first).each(take);
    (devices & ~first).each(take);
    return times;
}

Scope scope_of(const DeviceColumn& column, const WideMask& devices) {
    if (devices.count() == 1) {
        return kOneDevice;
    }
    const int first = devices.first();
    const int place = column.place[first];
    if (column.place_switch[place] >= 0 && devices.is_within(column.on_place[place])) {
        return kSwitch;
    }
    if (column.numa[first] >= 0 && devices.is_within(column.on_numa[column.numa[first]])) {
        return kNuma;
    }
    if (column.socket[first] >= 0 && devices.is_within(column.on_socket[column.socket[first]])) {
        return kSocket;
    }
    return kMachine;
}

Fitted::Fitted(const Request& request, const Shape& shape) {
    for (const auto& need : request.needs) {
        needs.push_back(fit(need, shape.of(need.type)));
        if (need.type != kGpu) {
            continue;
        }
        has_model =
            request.models.empty() || std::ranges::binary_search(request.models, shape.model());
        isolated =
            !need.is_shared() || request.isolation == 0 || request.isolation == shape.isolation();
        admitted = shape.sharing().admit(need);
        template_name = shape.sharing().template_of(need);
        if (need.is_shared() || need.every) {
            continue;
        }
        must_be_row = request.partition != Partition::kAsTheNodeSays || shape.honor();
        may_be_row = must_be_row || shape.has_partitions();
        const auto& gpus = shape.of(kGpu);
        // Of GPUs whose links are known, those that are not linked are no partition.
        const auto least =
            must_be_row && shape.has_links() ? std::max(request.links, kIsland) : request.links;
        auto own = shape.partitions(need.count);
        std::erase_if(own, [&](const auto& row) { return row.links < least; });
        const auto most = best_score(own);
        for (const auto& row : own) {
            const bool slow = request.bandwidth > row.bandwidth;
            const bool worse = request.partition == Partition::kRestricted && row.score < most;
            if (!slow && !worse) {
                rows.push_back({row.members, -row.score, scope_of(gpus, row.members)});
            }
        }
        for (const auto& [size, weight] : kResidualWeights) {
            if (size < need.count) {
                continue;
            }
            const auto others = shape.partitions(size);
            const auto best = best_score(others);
            Residual residual{weight * best, {}};
            for (const auto& row : others) {
                if (row.score == best) {
                    residual.rows.push_back(row.members);
                }
            }
            if (shape.has_links() && residual.rows.size() == sets_of(gpus.count, size)) {
                continue;  // as many are left of any choice
            }
            if (!residual.rows.empty()) {
                residuals.push_back(std::move(residual));
            }
        }
    }
}

}  // namespace hivecore::devices
