#include "devices/charges.hpp"

#include <algorithm>

namespace hivecore::devices {
namespace {

constexpr std::uint64_t kMostUsed = std::uint64_t{1} << 62;  // more makes no difference

int find_function(const DeviceColumn& column, int device, std::int32_t name) {
    for (int f = column.first_function[device]; f < column.first_function[device + 1]; ++f) {
        if (column.function_names[f] == name) {
            return f;
        }
    }
    return -1;
}

// The virtual function of a device that a need would get; -1: none is free.
std::int32_t function_for(const FittedNeed& need, const DeviceColumn& column,
                          const std::uint64_t* words, int device, std::span<const Charge> own) {
    std::int32_t lowest = -1;
    for (int f = column.first_function[device]; f < column.first_function[device + 1]; ++f) {
        if (!has_bit(need.functions.data(), 0, f) || has_bit(words, column.functions, f)) {
            continue;
        }
        const auto name = column.function_names[f];
        if (std::ranges::any_of(own,
                                [&](const Charge& charge) { return charge.function == name; })) {
            return name;
        }
        lowest = lowest < 0 ? name : lowest;
    }
    return lowest;
}

void clear_bit(std::vector<std::uint64_t>& words, int at, int bit) {
    words[at + bit / 64] &= ~(std::uint64_t{1} << (bit % 64));
}

}  // namespace

void apply(const Shape& shape, std::vector<std::uint64_t>& words,
           const std::vector<Charge>& charges) {
    int gpus = 0;
    bool whole = true;
    for (const auto& charge : charges) {
        const auto& column = shape.of(charge.type);
        const int device = shape.find(charge.type, charge.minor);
        if (charge.function >= 0) {
            // By its address, on whichever device it is by now.
            const auto& names = column.function_names;
            if (const auto place = std::ranges::find(names, charge.function);
                place != names.end()) {
                set_bit(words, column.functions, static_cast<int>(place - names.begin()));
            }
        }
        if (device < 0) {
            continue;
        }
        if (charge.type == kGpu && column.primary[device] >= 0) {
            const int c = column.primary[device];
            ++gpus;
            whole &= charge.amounts[column.amount_of(c)] >= column.total[c * column.count + device];
        }
        for (int amount = 0; amount < kAmounts; ++amount) {
            if (const int c = column.column_of[amount]; c >= 0) {
                auto& used = words[column.used + c * column.count + device];
                used =
                    std::min(used + static_cast<std::uint64_t>(charge.amounts[amount]), kMostUsed);
            }
        }
        set_bit(words, column.in_use, device);
        if (charge.exclusive != Exclusive::kNo) {
            set_bit(words, column.closed, device);
        }
        if (charge.exclusive == Exclusive::kSwitch) {
            column.on_place[column.place[device]].each(
                [&](int other) { set_bit(words, column.closed, other); });
        }
    }
    if (gpus > 0) {
        words[0] |= std::uint64_t{1} << (whole ? std::min(gpus, 63) : 0);
    }
}

void add_up(const Shape& shape, std::vector<std::uint64_t>& words) {
    for (int type = 0; type < kTypes; ++type) {
        const auto& column = shape.of(static_cast<Type>(type));
        std::int64_t total = 0, free = 0;
        for (int i = 0; i < column.count; ++i) {
            if (column.primary[i] >= 0 && has_bit(words.data(), column.healthy, i)) {
                const auto at = column.primary[i] * column.count + i;
                total += column.total[at];
                const auto used = static_cast<std::int64_t>(words[column.used + at]);
                free += std::max<std::int64_t>(column.total[at] - used, 0);
            }
        }
        if (column.count > 0) {
            words[column.sums] = static_cast<std::uint64_t>(total);
            words[column.sums + 1] = static_cast<std::uint64_t>(free);
        }
    }
}

void confine(const Shape& shape, std::vector<std::uint64_t>& words, std::span<const Charge> charges,
             std::uint32_t types, bool any_function) {
    for (int type = 0; type < kTypes; ++type) {
        const auto& column = shape.of(static_cast<Type>(type));
        if (!(types >> type & 1)) {
            continue;
        }
        for (int i = 0; i < column.count; ++i) {
            const auto given = std::ranges::find_if(charges, [&](const Charge& charge) {
                return charge.type == type && charge.minor == column.minors[i];
            });
            if (given == charges.end()) {
                clear_bit(words, column.healthy, i);
                continue;
            }
            for (int c = 0; c < column.columns; ++c) {
                const auto total = column.total[c * column.count + i];
                const auto left = std::min(given->amounts[column.amount_of(c)], total);
                auto& used = words[column.used + c * column.count + i];
                used = std::max(used, static_cast<std::uint64_t>(total - left));
            }
            if (any_function && given->function < 0) {
                continue;
            }
            for (int f = column.first_function[i]; f < column.first_function[i + 1]; ++f) {
                if (column.function_names[f] != given->function) {
                    set_bit(words, column.functions, f);
                }
            }
        }
    }
}

bool is_free(const Shape& shape, const std::uint64_t* words, std::span<const Charge> charges,
             bool idle) {
    for (const auto& charge : charges) {
        const int device = shape.find(charge.type, charge.minor);
        const auto& column = shape.of(charge.type);
        if (device < 0 || !has_bit(words, column.healthy, device) ||
            has_bit(words, column.closed, device)) {
            return false;
        }
        bool whole = true;
        for (int amount = 0; amount < kAmounts; ++amount) {
            const int c = column.column_of[amount];
            const auto at = c * column.count + device;
            const auto total = c < 0 ? 0 : column.total[at];
            const auto used = c < 0 ? 0 : static_cast<std::int64_t>(words[column.used + at]);
            if (charge.amounts[amount] > 0 && charge.amounts[amount] > total - used) {
                return false;
            }
            whole &= charge.amounts[amount] == total;
        }
        const bool alone =
            (idle && charge.type == kGpu) || whole || charge.exclusive != Exclusive::kNo;
        if (alone && has_bit(words, column.in_use, device)) {
            return false;
        }
        if (charge.exclusive == Exclusive::kSwitch) {
            bool used = false;
            column.on_place[column.place[device]].each(
                [&](int other) { used |= has_bit(words, column.in_use, other); });
            if (used) {
                return false;
            }
        }
        if (charge.function >= 0) {
            const int f = find_function(column, device, charge.function);
            if (f < 0 || has_bit(words, column.functions, f)) {
                return false;
            }
        }
    }
    return true;
}

std::vector<Charge> charges_for(const Request& request, const Fitted& fitted, const Shape& shape,
                                const std::uint64_t* words, const Chosen& chosen,
                                std::span<const Charge> own) {
    std::vector<Charge> charges;
    for (std::size_t i = 0; i < request.needs.size(); ++i) {
        const auto& need = request.needs[i];
        const auto& column = shape.of(need.type);
        std::vector<int> times(column.count, 1);
        if (need.repeats) {
            WideMask first;
            for (const auto& charge : own) {
                const int device =
                    charge.type == need.type ? shape.find(charge.type, charge.minor) : -1;
                if (device >= 0) {
                    first.add(device);
                }
            }
            times =
                times_of(need, fitted.needs[i], column, words, chosen.devices[need.type], first);
        }
        chosen.devices[need.type].each([&](int device) {
            Charge charge{need.type, need.exclusive, column.minors[device]};
            if (need.type == kGpu) {
                charge.template_name = *fitted.template_name;
            }
            for (int amount = 0; amount < kAmounts; ++amount) {
                if (const int c = column.column_of[amount]; c >= 0) {
                    charge.amounts[amount] =
                        times[device] * fitted.needs[i].charge[c * column.count + device];
                }
            }
            if (need.functions) {
                charge.function = function_for(fitted.needs[i], column, words, device, own);
            }
            charges.push_back(charge);
        });
    }
    return charges;
}

}  // namespace hivecore::devices
