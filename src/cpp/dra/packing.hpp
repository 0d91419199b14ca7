// Whether the devices of a node can serve some demands together, once every choice between
// alternatives and between common values has been made. Exact.
//
// Devices that share something (a counter set, a value that may be used once, a budget) are a
// *block*; what one block gives does not depend on the others. A device that is alone, and serves
// one request as a whole, needs no more than a matching. For any other block there is a table of
// what it can serve at the same time, as far as nothing better contains it; equal blocks have one
// table. The search goes over blocks, takes one line of each table, and visits what remains at most
// once; the rest is matched.
//
//     block 0, a GPU in partitions      block 1, the same       devices alone
//     demand:   small  half  whole                              0 1 2 3
//                 7      0     0             ...                matched with what remains
//                 3      1     0
//                 0      2     0
//                 0      0     1
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dra/grants.hpp"
#include "dra/work.hpp"

namespace hivecore::dra {

// Equal requests for devices.
struct Demand {
    Index alternative = 0;  // whose rules apply
    Index count = 0;        // devices, or shares
    Mask allowed;
    bool is_separate = false;  // no device serves it twice
    bool is_relaxed = false;   // needs less than this: only devices alone, the others are a gift
};

class Packing {
  public:
    Packing(const Problem& problem, Grants& grants, Work& work);

    // Whether all demands can be served beside the grants.
    bool serve(const std::vector<Demand>& demands);
    // Of the last success: for each demand its devices.
    const std::vector<std::vector<Index>>& served() const { return served_; }
    // Of the last failure: demands that together need more devices than there are; or none.
    const std::vector<Index>& shortage() const { return shortage_; }
    // Alternatives with one number have the same rules, match constraints aside.
    Index same(Index alternative) const { return same_[alternative]; }
    // Devices with one number can be exchanged in any answer.
    const std::vector<Index>& equal() const { return equal_; }

    // What a block can serve at the same time, by the demands that it can serve at all.
    struct Line {
        std::vector<std::uint16_t> counts;
        std::vector<std::pair<Index, Index>> devices;  // place in the block, place of the demand
    };
    struct Table {
        Index number = 0;  // in the order in which tables were made
        std::vector<Line> lines;
    };

  private:
    struct Block {
        const std::vector<Index>* devices = nullptr;
        std::vector<Index> demands;
        const Table* table = nullptr;
        Index end_of_equals = 0;  // of the blocks from this one on that have the same table
    };
    // Weights of demands. What blocks can serve of any weights bounds what they can serve.
    static constexpr Index kWeights = 5;
    using Weights = std::array<std::uint64_t, kWeights>;

    static constexpr Index kMostBlocks = 512;   // as deep is the recursion
    static constexpr Index kMostInBlock = 512;  // devices: as deep is the recursion

    void find_blocks();
    void find_equals();
    const Table& table_of(const std::vector<Index>& devices, const std::vector<Index>& demands);
    void prepare(const std::vector<Demand>& demands);
    void prepare_tables();
    void weigh();
    bool exceeds_bounds(Index at);
    Index hardest_to_place(Index at) const;
    bool search(Index at);
    void collect();
    bool match();
    bool augment(Index demand);

    const Problem& problem_;
    Grants& grants_;
    Work& work_;
    Mask alone_;
    std::vector<std::vector<Index>> blocks_;  // of the other devices
    std::vector<Index> equal_;
    std::vector<Index> same_;  // alternative -> the first with the same rules
    std::unordered_map<std::string, Table> tables_;

    // Of the call.
    const std::vector<Demand>* demands_ = nullptr;
    std::vector<Block> used_;
    std::vector<std::vector<Index>> most_after_;  // block, demand -> what it and later ones give
    std::vector<Weights> weights_;                // of each demand
    std::vector<Weights> weight_after_;           // as most_after_
    std::vector<std::vector<Index>> order_;       // of each block, its lines, the heaviest first
    std::vector<Index> remaining_;
    std::vector<Index> line_;  // of each block
    std::unordered_set<std::string> failed_;
    std::vector<Mask> free_;  // demand -> devices alone that it may have
    std::vector<Mask> mine_;  // demand -> devices matched with it
    Mask taken_;
    std::vector<std::vector<Index>> served_;
    std::vector<Index> shortage_;
};

}  // namespace hivecore::dra
