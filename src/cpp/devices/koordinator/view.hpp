// The devices of one type that a need may use, as masks.
//
// Visible are those with the labels (and on the NUMA nodes, if these are told), healthy or not; if
// nothing of the type is left on the whole node, none is. What is in use is told by amounts where a
// device is visible, and by owners where it is not.
#pragma once

#include "devices/choice/chooser.hpp"
#include "devices/koordinator/asked.hpp"
#include "devices/koordinator/state.hpp"

namespace hivecore::devices::koordinator {

template <int W>
Mask<W> mask_at(const std::uint64_t* state, int at) {
    Mask<W> mask;
    for (int w = 0; w < W; ++w) {
        mask.words[w] = state[at + w];
    }
    return mask;
}

template <int W>
struct TypeView {
    Mask<W> visible;
    Mask<W> in_use;   // of all devices, and of minors that are not there
    Mask<W> healthy;  // visible, and has something
    Mask<W> serving;  // healthy, and what it limits suffices
    Mask<W> taking;   // something is left, what it limits suffices, a virtual function is free
};

// Whether an amount is asked of which a device has nothing left, for it was charged unreported.
inline bool is_spent(const AskedNeed& asked, const DeviceColumn& column, const std::uint64_t* state,
                     int device) {
    return (named(column, state, device) & asked.names) != 0;
}

// The devices where all that is asked, and that the device reports, is left.
template <int W>
Mask<W> with_enough(const AskedNeed& asked, const DeviceColumn& column,
                    const std::uint64_t* state) {
    Mask<W> fits;
    for (int begin = 0; begin < column.count; begin += 64) {
        const int devices = std::min(column.count - begin, 64);
        std::uint64_t bits = ~std::uint64_t{0};
        for (std::size_t k = 0; k < asked.columns.size(); ++k) {
            const auto at = asked.columns[k] * column.count + begin;
            const auto* least = asked.least.data() + k * column.count + begin;
            const auto* total = column.total.data() + at;
            const auto* used = state + column.used + at;
            std::uint64_t enough = 0;
            for (int device = 0; device < devices; ++device) {
                const auto left = total[device] - static_cast<std::int64_t>(used[device]);
                enough |= static_cast<std::uint64_t>(left >= least[device]) << device;
            }
            bits &= enough;
        }
        fits.words[begin / 64] = bits;
    }
    return fits;
}

// The first virtual function that will do and is free; -1: there is none.
inline int free_function(const AskedNeed& asked, const DeviceColumn& column,
                         const std::uint64_t* state, int device) {
    const int begin = column.first_function[device], end = column.first_function[device + 1];
    for (int w = begin / 64; 64 * w < end; ++w) {
        auto free = asked.functions[w] & ~state[column.functions + w];
        if (64 * w < begin) {
            free &= ~std::uint64_t{0} << (begin % 64);
        }
        if (64 * w + 64 > end) {
            free &= ~std::uint64_t{0} >> (64 * w + 64 - end);
        }
        if (free != 0) {
            return 64 * w + std::countr_zero(free);
        }
    }
    return -1;
}

// The devices on switches of known NUMA nodes where nothing of the type is used.
template <int W>
Mask<W> on_untouched_switches(const Board& board, Type type, const DeviceColumn& column,
                              const std::uint64_t* state) {
    Mask<W> touched = mask_at<W>(state, column.raw.partly);
    const auto healthy = mask_at<W>(state, column.healthy);
    mask_at<W>(state, column.in_use).each([&](int device) {
        if (device >= column.count) {
            return;
        }
        bool is_used = named(column, state, device) != 0;
        for (int c = 0; !healthy.has(device) && c < column.columns; ++c) {
            is_used |= state[column.used + c * column.count + device] > 0;
        }
        if (is_used) {
            touched.add(device);
        }
    });
    Mask<W> found;
    for (const auto& wide : board.on_switch[type]) {
        const auto here = wide.template as<W>();
        if (!(here & touched).any()) {
            found = found | here;
        }
    }
    return found;
}

template <int W>
void look(const Need& need, const AskedNeed& asked, const Board& board, const DeviceColumn& column,
          const std::uint64_t* state, Quirks quirks, const Visible* shown, TypeView<W>& view) {
    const auto left = mask_at<W>(state, column.raw.left);
    const auto partly = mask_at<W>(state, column.raw.partly);
    auto visible = asked.matching.template as<W>();
    if (shown != nullptr) {
        visible = visible & (*shown)[need.type].template as<W>();
    }
    if (!left.any()) {
        visible = {};
    }
    if (need.exclusive == Exclusive::kSwitch && (quirks & kExclusivityIgnored) == 0) {
        visible = visible & on_untouched_switches<W>(board, need.type, column, state);
    }
    const auto healthy =
        visible & mask_at<W>(state, column.healthy) & board.reporting[need.type].template as<W>();
    auto serving = healthy & with_enough<W>(asked, column, state);
    const auto used = serving & partly;
    used.each([&](int device) {
        if (is_spent(asked, column, state, device)) {
            serving.remove(device);
        }
    });
    auto taking = serving & left;
    if (need.functions) {
        const auto candidates = taking;
        candidates.each([&](int device) {
            if (free_function(asked, column, state, device) < 0) {
                taking.remove(device);
            }
        });
    }
    view.visible = visible;
    view.in_use = (partly & visible) | (mask_at<W>(state, column.in_use) & ~visible);
    view.healthy = healthy;
    view.serving = serving;
    view.taking = taking;
}

}  // namespace hivecore::devices::koordinator
