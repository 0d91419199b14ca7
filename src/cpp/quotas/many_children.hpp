// Divides an amount among very many children, for the runtime of a few of them.
//
// `WaterFill` visits all children in every round. Here the hungry children, which may get more than
// their minimum, are in blocks of consecutive children of equal weight, with their rests (what they
// request beyond the minimum) sorted and summed up. In a round all hungry children of a block get
// the same share. For at most one weight only the first children get one unit more; the block with
// the last of these is visited child by child. So a round costs O(blocks * log(block)), and a
// change of a child O(block). The rounds are those of `WaterFill`, and so are the runtimes, to the
// unit.
//
// A block has about the square root of the number of children; at least one for each weight.
#pragma once

#include <cstdint>
#include <map>
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
    const Wide& minimums() const { return minimums_; }
    // Whether a round is worth it, beside one that goes through all children.
    bool is_worth_it() const { return blocks() * 8 <= size(); }
    void set(std::int32_t child, const Claim& claim);
    // What a child may use of an amount; -1: the numbers are too large to tell.
    std::int64_t runtime(std::int64_t amount, std::int32_t child);
    std::uint64_t bytes() const;

  private:
    struct Block {
        std::vector<std::int32_t> children;  // ascending
        std::vector<std::int64_t> rests;     // of these
        std::vector<std::int64_t> sorted;    // the rests, ascending
        std::vector<std::uint64_t> sums;     // of the first so many of them
    };

    // A block, or what is left of one that was gone through, in the round that takes place.
    struct Share {
        const Block* block = nullptr;
        std::size_t met = 0;     // of the sorted rests: so many have got all that they ask for
        std::int64_t given = 0;  // to each of the others
        std::vector<std::int32_t> children;  // instead of a block
        std::vector<std::int64_t> rests;

        std::size_t hungry() const {
            return block != nullptr ? block->sorted.size() - met : children.size();
        }
        // Calls visit(child, what it still asks for) for the hungry ones.
        template <class Visit>
        void for_each(Visit visit) const {
            const auto& all = block != nullptr ? block->children : children;
            const auto& asked = block != nullptr ? block->rests : rests;
            for (std::size_t i = 0; i < all.size(); ++i) {
                if (asked[i] > given) {
                    visit(all[i], asked[i] - given);
                }
            }
        }
    };

    // All hungry children of a weight.
    struct Class {
        std::int64_t weight = 0;
        Part part{};  // of each of them, in the round that takes place
        std::vector<Share> parts;
        std::int64_t hungry = 0;
    };

    struct Round {
        std::int64_t amount = 0, total = 0;
        // A unit more get children whose remainder is larger, or equal and up to the last child.
        std::int64_t remainder = 0;
        std::int32_t last = -1;

        double rate() const { return static_cast<double>(amount) / static_cast<double>(total); }
    };

    std::size_t blocks() const;
    void add(std::int32_t child);
    void take(std::int32_t child);
    std::pair<std::vector<Block>*, std::size_t> block_of(std::int32_t child);
    void go_through(std::int64_t amount);
    bool share(Round& round, std::vector<Class>& hungry);
    std::int32_t last_of(std::int64_t many, std::int64_t remainder, std::vector<Class>& hungry);
    std::int64_t give(Class& of, const Round& round);

    std::vector<Claim> claims_;
    std::size_t longest_;  // block
    Wide minimums_, bases_;
    Wide rests_;                   // of the hungry
    std::int64_t unweighted_ = 0;  // hungry children without a weight, which get no more
    std::map<std::int64_t, std::vector<Block>> by_weight_;

    bool is_known_ = false;  // whether the next three are of the claims and the amount
    std::int64_t amount_ = 0;
    bool is_enough_ = false;  // all get what they ask for
    bool is_too_large_ = false;
    std::vector<Round> rounds_;
};

}  // namespace hivecore::quotas
