// What nodes of equal inventory have in common: everything but health, use and names.
//
// The devices of a type are numbered by ascending minor. A *place* of a type is a switch that has
// devices of it, or a device that is on none. Switches, NUMA nodes and sockets have one numbering
// for all types, so devices of different types can be compared; -1 stands for one that is not
// known.
//
// A state of such a node is `words` 64-bit words, laid out here: the kinds of its owners (bit 0:
// some have shares of GPUs, bit k: some have k whole ones); for each type the masks of its
// healthy, used and closed devices (`mask_words` each), what is used of each amount of each device,
// column by column, and the virtual functions that are used. Two sums per type, which follow from
// the rest, are kept with them for scores.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "devices/mask.hpp"
#include "devices/request.hpp"
#include "devices/share_rules.hpp"

namespace hivecore::devices {

// One device as it is given to a shape.
struct DeviceRecord {
    Type type = kGpu;
    std::int32_t minor = 0;
    Amounts amounts{};
    std::int32_t socket = -1, numa = -1, switch_ = -1;
    Labels labels;
    // By ascending bus address: (number of the address, number of the group on this device).
    std::vector<std::array<std::int32_t, 2>> functions;
    std::vector<Labels> groups;
};

struct PartitionRow {
    WideMask members;
    int size = 0;
    std::int64_t score = 0;
    std::int64_t bandwidth = -1;  // -1: not known
    Links links = kNotLinked;
};

// By pair of GPUs how many links there are, as a square; empty: not known.
using LinkCounts = std::vector<std::int32_t>;
inline constexpr int kMostLinked = 16;  // GPUs, as all sets of them are tried

// The devices of one type.
struct DeviceColumn {
    int count = 0;
    int columns = 0;                                // amounts that some device has
    std::array<std::int8_t, kAmounts> column_of{};  // amount -> column; -1: none has it
    std::vector<std::int64_t> total;                // [column * count + device]; 0: it has none
    std::vector<std::int8_t> primary;               // column that devices are compared by
    std::vector<std::int32_t> minors;
    std::vector<std::int32_t> socket, numa, switch_;
    std::vector<Labels> labels;
    std::vector<std::int32_t> first_function;  // by device, and one more
    std::vector<std::int32_t> function_names;  // numbers of bus addresses
    std::vector<Labels> function_labels;

    std::vector<std::int32_t> place;  // by device
    std::vector<WideMask> on_place;
    std::vector<std::int32_t> place_switch, place_numa, place_socket;
    std::vector<std::int32_t> by_socket;  // the places, those of one NUMA node and socket together
    std::vector<WideMask> on_numa, on_socket;

    // Where the type's part of a state begins.
    int healthy = 0, in_use = 0, closed = 0, used = 0, functions = 0, sums = 0;
    int function_words = 0;

    int amount_of(int c) const {
        return static_cast<int>(std::ranges::find(column_of, c) - column_of.begin());
    }
    // Nothing is known of where the devices are.
    bool is_flat() const;

    int places() const { return static_cast<int>(on_place.size()); }
    int function_count() const { return first_function.back(); }
};

class Shape {
  public:
    // Devices in any order; minors are distinct within a type.
    Shape(std::vector<DeviceRecord> devices, std::vector<PartitionRow> partitions, bool honor,
          std::int32_t isolation, std::int32_t model, ShareRules sharing, LinkCounts links);

    const DeviceColumn& of(Type type) const { return columns_[type]; }
    bool has_partitions() const { return !partitions_.empty() || !links_.empty(); }
    bool has_links() const { return !links_.empty(); }
    // The partitions of so many GPUs: of the table, or all sets of them where links are known.
    std::vector<PartitionRow> partitions(int size) const;
    bool honor() const { return honor_; }
    std::int32_t isolation() const { return isolation_; }
    std::int32_t model() const { return model_; }
    const ShareRules& sharing() const { return sharing_; }
    int mask_words() const { return mask_words_; }
    int words() const { return words_; }

    // The device of this minor; -1: there is none.
    int find(Type type, std::int32_t minor) const;

    // The devices of `other` that are at most so far from a place of `type`: on the same switch
    // (0), in the same NUMA node (1), on the same socket (2).
    const WideMask& near(Type type, int place, Type other, int level) const {
        return near_[type][other][3 * place + level];
    }

    std::uint64_t bytes() const;

  private:
    void add_column(Type type, std::vector<DeviceRecord> devices);
    void add_places(DeviceColumn& column);
    void find_near();
    void lay_out();
    PartitionRow linked(std::uint32_t set) const;

    std::array<DeviceColumn, kTypes> columns_;
    std::array<std::array<std::vector<WideMask>, kTypes>, kTypes> near_;
    std::vector<PartitionRow> partitions_;
    LinkCounts links_;
    bool honor_;
    std::int32_t isolation_, model_;
    ShareRules sharing_;
    int mask_words_ = 1, words_ = 1;
};

}  // namespace hivecore::devices
