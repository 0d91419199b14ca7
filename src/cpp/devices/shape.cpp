#include "devices/shape.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace hivecore::devices {
namespace {

// The masks of the devices by a number that may be -1.
std::vector<WideMask> masks_by(const std::vector<std::int32_t>& numbers) {
    std::vector<WideMask> masks;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        if (numbers[i] >= 0) {
            masks.resize(std::max(masks.size(), static_cast<std::size_t>(numbers[i]) + 1));
            masks[numbers[i]].add(static_cast<int>(i));
        }
    }
    return masks;
}

std::int8_t primary_column(Type type, const std::array<std::int8_t, kAmounts>& column_of,
                           const DeviceRecord& device) {
    static constexpr std::array kOfGpu{kMemory, kMemoryRatio};
    if (type == kGpu) {
        for (const auto amount : kOfGpu) {
            if (device.amounts[amount] > 0) {
                return column_of[amount];
            }
        }
        return column_of[kCore];
    }
    for (int amount = 0; amount < kAmounts; ++amount) {
        if (device.amounts[amount] > 0) {
            return column_of[amount];
        }
    }
    return -1;
}

}  // namespace

bool DeviceColumn::is_flat() const {
    const auto unknown = [](std::int32_t number) { return number < 0; };
    return std::ranges::all_of(switch_, unknown) && std::ranges::all_of(numa, unknown) &&
           std::ranges::all_of(socket, unknown);
}

Shape::Shape(std::vector<DeviceRecord> devices, std::vector<PartitionRow> partitions, bool honor,
             std::int32_t isolation, std::int32_t model, ShareRules sharing, LinkCounts links)
    : partitions_(std::move(partitions)),
      links_(std::move(links)),
      honor_(honor),
      isolation_(isolation),
      model_(model),
      sharing_(std::move(sharing)) {
    for (int type = 0; type < kTypes; ++type) {
        std::vector<DeviceRecord> same;
        for (auto& device : devices) {
            if (device.type == type) {
                same.push_back(std::move(device));
            }
        }
        add_column(static_cast<Type>(type), std::move(same));
    }
    find_near();
    lay_out();
}

void Shape::add_column(Type type, std::vector<DeviceRecord> devices) {
    auto& column = columns_[type];
    std::ranges::sort(devices, {}, &DeviceRecord::minor);
    column.count = static_cast<int>(devices.size());
    mask_words_ = std::max(mask_words_, column.count > 64 ? kMostDevices / 64 : 1);
    for (auto& device : devices) {
        if (type == kGpu && device.amounts[kMemory] > 0) {
            device.amounts[kMemoryRatio] = 0;  // bytes are the truth
        }
    }
    column.column_of.fill(-1);
    for (int amount = 0; amount < kAmounts; ++amount) {
        if (std::ranges::any_of(devices,
                                [&](const auto& device) { return device.amounts[amount] > 0; })) {
            column.column_of[amount] = static_cast<std::int8_t>(column.columns++);
            for (const auto& device : devices) {
                column.total.push_back(device.amounts[amount]);
            }
        }
    }
    column.first_function.push_back(0);
    for (auto& device : devices) {
        column.primary.push_back(primary_column(type, column.column_of, device));
        column.minors.push_back(device.minor);
        column.socket.push_back(device.socket);
        column.numa.push_back(device.numa);
        column.switch_.push_back(device.switch_);
        column.labels.push_back(std::move(device.labels));
        for (const auto& [name, group] : device.functions) {
            column.function_names.push_back(name);
            column.function_labels.push_back(device.groups[group]);
        }
        column.first_function.push_back(static_cast<std::int32_t>(column.function_names.size()));
    }
    add_places(column);
}

void Shape::add_places(DeviceColumn& column) {
    std::map<std::int32_t, std::int32_t> of_switch;
    for (int i = 0; i < column.count; ++i) {
        auto place = column.places();
        if (column.switch_[i] >= 0) {
            place = of_switch.try_emplace(column.switch_[i], place).first->second;
        }
        if (place == column.places()) {
            column.on_place.emplace_back();
            column.place_switch.push_back(column.switch_[i]);
            column.place_numa.push_back(column.numa[i]);
            column.place_socket.push_back(column.socket[i]);
        }
        column.place.push_back(place);
        column.on_place[place].add(i);
    }
    column.by_socket.resize(column.places());
    std::iota(column.by_socket.begin(), column.by_socket.end(), 0);
    std::ranges::sort(column.by_socket, {}, [&](int place) {
        return std::tuple(column.place_socket[place], column.place_numa[place], place);
    });
    column.on_numa = masks_by(column.numa);
    column.on_socket = masks_by(column.socket);
}

void Shape::find_near() {
    for (int type = 0; type < kTypes; ++type) {
        for (int other = 0; other < kTypes; ++other) {
            if (type == other) {
                continue;
            }
            const auto& here = columns_[type];
            const auto& others = columns_[other];
            auto& near = near_[type][other];
            near.resize(3 * here.on_place.size());
            for (int place = 0; place < here.places(); ++place) {
                const auto same = [](std::int32_t a, std::int32_t b) { return a >= 0 && a == b; };
                for (int i = 0; i < others.count; ++i) {
                    const std::array levels{same(here.place_switch[place], others.switch_[i]),
                                            same(here.place_numa[place], others.numa[i]),
                                            same(here.place_socket[place], others.socket[i])};
                    bool is_near = false;
                    for (int level = 0; level < 3; ++level) {
                        is_near |= levels[level];
                        if (is_near) {
                            near[3 * place + level].add(i);
                        }
                    }
                }
            }
        }
    }
}

void Shape::lay_out() {
    for (auto& column : columns_) {
        column.healthy = words_;
        column.in_use = column.healthy + mask_words_;
        column.closed = column.in_use + mask_words_;
        column.sums = column.closed + mask_words_;
        column.used = column.sums + 2;
        column.functions = column.used + column.columns * column.count;
        column.function_words = (column.function_count() + 63) / 64;
        if (column.count > 0) {
            words_ = column.functions + column.function_words;
        }
    }
}

int Shape::find(Type type, std::int32_t minor) const {
    const auto& minors = columns_[type].minors;
    const auto place = std::ranges::lower_bound(minors, minor);
    return place != minors.end() && *place == minor ? static_cast<int>(place - minors.begin()) : -1;
}

std::vector<PartitionRow> Shape::partitions(int size) const {
    std::vector<PartitionRow> rows;
    if (!has_links()) {
        std::ranges::copy_if(partitions_, std::back_inserter(rows),
                             [&](const auto& row) { return row.size == size; });
        return rows;
    }
    if (size > columns_[kGpu].count) {
        return rows;
    }
    const auto end = std::uint32_t{1} << columns_[kGpu].count;
    for (auto set = (std::uint32_t{1} << size) - 1; set < end;) {
        rows.push_back(linked(set));
        const auto low = set & (~set + 1);
        const auto carried = set + low;
        set = carried | (((set ^ carried) >> 2) / low);  // the next one of as many bits
    }
    return rows;
}

// A set of GPUs as a partition: its score is the number of links within it.
PartitionRow Shape::linked(std::uint32_t set) const {
    const int count = columns_[kGpu].count;
    PartitionRow row;
    row.links = kAllLinked;
    std::array<std::uint32_t, kMostLinked> near{};  // by GPU, itself and those that it is linked to
    for (int i = 0; i < count; ++i) {
        for (int j = 0; j < count && (set >> i & 1) != 0; ++j) {
            const auto links = links_[i * count + j];
            near[i] |= std::uint32_t{links > 0 || i == j} << j;
            row.score += j < i && (set >> j & 1) != 0 ? links : 0;
        }
        if (near[i] != 0) {
            row.members.add(i);
            ++row.size;
            row.links = (set & ~near[i]) != 0 ? kIsland : row.links;
        }
    }
    auto reached = set & (~set + 1);
    for (int round = 0; round < count; ++round) {  // enough to reach what can be reached
        for (int i = 0; i < count; ++i) {
            reached |= (reached >> i & 1) != 0 ? near[i] & set : 0;
        }
    }
    row.links = reached == set ? row.links : kNotLinked;
    return row;
}

std::uint64_t Shape::bytes() const {
    std::uint64_t sum = sizeof *this + partitions_.capacity() * sizeof(PartitionRow) +
                        links_.capacity() * sizeof links_[0] +
                        sharing_.templates.capacity() * sizeof(ShareTemplate);
    for (int type = 0; type < kTypes; ++type) {
        const auto& column = columns_[type];
        sum += 8 * column.total.capacity() + 64 * static_cast<std::uint64_t>(column.count) +
               32 * static_cast<std::uint64_t>(column.function_count()) +
               sizeof(WideMask) * (column.on_place.capacity() + column.on_numa.capacity() +
                                   column.on_socket.capacity());
        for (const auto& near : near_[type]) {
            sum += sizeof(WideMask) * near.capacity();
        }
    }
    return sum;
}

}  // namespace hivecore::devices
