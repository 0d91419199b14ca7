// Divides an amount among very many children, for the runtime of a few of them.
//
// `WaterFill` visits all children in every round. Here the children of a weight are in blocks of
// consecutive ones. Of the hungry children of a block, which may get more than their minimum, the
// rests (what they request beyond it) are sorted and summed up, and in a round all of them get the
// same share. How many are satisfied by it is likely to be what it was when the amount was divided
// the last time, so that is compared before it is searched for. Where the remainders of weights are
// equal, only the first children get one unit more; in the block with the last of these, all that
// may be satisfied are gone through. So a round costs O(weights + blocks), and a change of a child
// O(block). The rounds are those of `WaterFill`, and so are the runtimes, to the unit.
//
// A block has at most about three times the square root of the number of children; there is at
// least one for each weight.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/wide.hpp"
#include "quotas/water_fill.hpp"

namespace hivecore::quotas {

class ManyChildren {
  public:
    struct Claim {
        std::int64_t request = 0, minimum = 0, weight = 0;
        bool lends = true;
    };

    explicit ManyChildren(std::vector<Claim> claims);

    std::size_t size() const { return claims_.size(); }
    // Of all children together.
    const Wide& minimums() const { return all_minimums_; }
    // Whether a round is worth it, beside one that goes through all children.
    bool is_worth_it() const { return blocks_.size() * 4 <= size(); }
    // All else about a child stays as it is.
    void set_request(std::int32_t child, std::int64_t request);
    // What a child may use of an amount; -1: the numbers are too large to tell.
    std::int64_t runtime(std::int64_t amount, std::int32_t child);
    std::uint64_t bytes() const;

  private:
    static constexpr std::size_t kRemembered = 4;  // rounds

    // The hungry children of a block.
    struct Sorted {
        std::vector<std::int64_t> rests;     // ascending
        std::vector<std::int32_t> children;  // in the order of the rests
        std::vector<std::uint64_t> sums;     // of the first so many rests

        void sum_up(std::size_t begin);
    };

    // Of a block: so many rests are not above amounts from `low` to `high`, which is above; their
    // sum.
    struct Met {
        std::int32_t many = 0;
        std::uint64_t sum = 0;
        std::int64_t low = 0, high = 0;
    };

    // In the round that takes place. What is visited in each round is small and in few places.
    struct Block {
        std::int32_t begin = 0, end = 0;  // of its children
        std::int32_t size = 0;            // so many are hungry at the start,
        std::int32_t hungry = 0;          // and still are
        std::int32_t met = 0;             // so many rests are not above what is given
        std::uint64_t met_sum = 0;
        std::int64_t given = 0;  // to each child that is still hungry, but for those in `more_`
        std::int32_t more = -1;  // the last entry there
    };

    // All children of a weight, in the round that takes place.
    struct Class {
        std::int64_t weight = 0;
        std::int64_t hungry = 0;
        Part part{};                      // of each of these
        std::int32_t begin = 0, end = 0;  // of its blocks
    };

    using Remainder = std::pair<std::int64_t, std::size_t>;  // and which of the hungry has it

    struct Round {
        std::int64_t amount = 0, total = 0;
        // A unit more get children whose remainder is larger, or equal and up to the last child.
        std::int64_t remainder = 0;
        std::int32_t last = -1;

        double rate() const { return static_cast<double>(amount) / static_cast<double>(total); }
    };

    void count(const Claim& claim, bool is_in);
    void go_through(std::int64_t amount);
    void share(Round& round);
    std::int32_t last_of(std::int64_t many, std::span<const Remainder> equal);
    std::int64_t given_to(std::int32_t block, std::int32_t child) const;
    std::int64_t give(const Round& round);
    std::int64_t raise_unevenly(std::int32_t block, std::int64_t share, std::int32_t last);
    void search(std::int32_t block, Met& latest) const;

    std::vector<Claim> claims_;
    // By weight and then by number: the place of each child; at each place the child, its rest, and
    // its block.
    std::vector<std::int32_t> places_, children_;
    std::vector<std::int64_t> rests_;
    std::vector<std::int32_t> block_of_;
    std::vector<Class> classes_;
    std::vector<Block> blocks_;
    std::vector<Sorted> sorted_;   // of each block
    std::vector<Met> remembered_;  // [round * blocks + block], when they were gone through last
    Wide all_minimums_, all_bases_;
    Wide all_rests_, all_weights_;  // of the hungry
    std::int64_t unweighted_ = 0;   // hungry children without a weight, which get no more

    // In the round that takes place.
    std::vector<Class> hungry_;
    // The last of those children of a block which got a unit more than the others, and the entry of
    // the block before it.
    std::vector<std::pair<std::int32_t, std::int32_t>> more_;
    std::vector<std::int32_t> some_;
    std::vector<Remainder> remainders_;

    bool is_known_ = false;  // whether the next four are of the claims and the amount
    std::int64_t amount_ = 0;
    bool is_enough_ = false;  // all get what they ask for
    bool is_too_large_ = false;
    std::vector<Round> rounds_;
};

}  // namespace hivecore::quotas
