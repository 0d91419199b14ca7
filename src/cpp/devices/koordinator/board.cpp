#include "devices/koordinator/board.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace hivecore::devices::koordinator {

Board::Board(const Shape& shape) {
    std::vector<std::int32_t> switches;
    for (int type = 0; type < kKinds; ++type) {
        const auto& of = shape.of(static_cast<Type>(type)).switch_;
        switches.insert(switches.end(), of.begin(), of.end());
    }
    std::ranges::sort(switches);
    const auto [end, last] = std::ranges::unique(switches);
    switches.erase(end, last);
    std::erase_if(switches, [](auto number) { return number < 0; });
    for (int type = 0; type < kKinds; ++type) {
        const auto& column = shape.of(static_cast<Type>(type));
        std::map<std::pair<std::int32_t, int>, WideMask> scopes;  // by NUMA node and switch
        for (int i = 0; i < column.count; ++i) {
            const auto found = std::ranges::lower_bound(switches, column.switch_[i]);
            const int number =
                column.switch_[i] < 0 ? -1 : static_cast<int>(found - switches.begin());
            switch_of[type].push_back(static_cast<std::int16_t>(number));
            if (number >= 0) {
                scopes[{column.numa[i], number}].add(i);
            }
            for (int c = 0; c < column.columns; ++c) {
                if (column.total[c * column.count + i] > 0) {
                    reporting[type].add(i);
                }
            }
        }
        for (const auto& [where, devices] : scopes) {
            if (where.first >= 0) {
                on_switch[type].push_back(devices);
            }
        }
        if (type == kGpu) {
            has_tree = column.count > 0 &&
                       std::ranges::all_of(column.switch_, [](auto number) { return number >= 0; });
            const std::int32_t* before = nullptr;
            for (const auto& [where, devices] : scopes) {
                if (before == nullptr || *before != where.first) {
                    numas.emplace_back();
                }
                before = &where.first;
                numas.back().gpus = numas.back().gpus | devices;
                numas.back().switches.push_back(devices);
                gpus = gpus | devices;
            }
        }
    }
}

}  // namespace hivecore::devices::koordinator
