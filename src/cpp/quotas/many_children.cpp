#include "quotas/many_children.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace hivecore::quotas {
namespace {

constexpr auto kNobody = std::numeric_limits<std::int64_t>::max();  // no remainder is larger

std::int64_t base(const ManyChildren::Claim& claim) {
    return claim.lends ? std::min(claim.request, claim.minimum) : claim.minimum;
}

std::int64_t rest(const ManyChildren::Claim& claim) {
    return claim.request - claim.minimum;
}

// A sum that is too large starts again from 0, as do differences, which are right then.
void sum_up(const std::vector<std::int64_t>& sorted, std::vector<std::uint64_t>& sums) {
    sums.assign(1, 0);
    for (const auto rest : sorted) {
        sums.push_back(sums.back() + static_cast<std::uint64_t>(rest));
    }
}

}  // namespace

ManyChildren::ManyChildren(std::vector<Claim> claims)
    : claims_(std::move(claims)),
      longest_(static_cast<std::size_t>(2 * std::sqrt(static_cast<double>(claims_.size()))) + 8) {
    for (std::size_t i = 0; i < claims_.size(); ++i) {
        add(static_cast<std::int32_t>(i));
    }
}

std::size_t ManyChildren::blocks() const {
    std::size_t sum = 0;
    for (const auto& [_, blocks] : by_weight_) {
        sum += blocks.size();
    }
    return sum;
}

void ManyChildren::set(std::int32_t child, const Claim& claim) {
    take(child);
    claims_[child] = claim;
    add(child);
}

// The block where a child is, or is to be added.
std::pair<std::vector<ManyChildren::Block>*, std::size_t> ManyChildren::block_of(
    std::int32_t child) {
    auto& blocks = by_weight_[claims_[child].weight];
    if (blocks.empty()) {
        blocks.emplace_back();
    }
    const auto after = std::ranges::upper_bound(blocks, child, {}, [](const Block& block) {
        return block.children.empty() ? 0 : block.children.front();
    });
    return {&blocks, after == blocks.begin() ? 0 : after - blocks.begin() - 1};
}

void ManyChildren::add(std::int32_t child) {
    is_known_ = false;
    const auto& claim = claims_[child];
    minimums_ += static_cast<std::uint64_t>(claim.minimum);
    bases_ += static_cast<std::uint64_t>(base(claim));
    if (rest(claim) <= 0) {
        return;
    }
    rests_ += static_cast<std::uint64_t>(rest(claim));
    if (claim.weight == 0) {
        ++unweighted_;
        return;
    }
    const auto [blocks, at] = block_of(child);
    auto& block = (*blocks)[at];
    const auto place = std::ranges::lower_bound(block.children, child) - block.children.begin();
    block.children.insert(block.children.begin() + place, child);
    block.rests.insert(block.rests.begin() + place, rest(claim));
    block.sorted.insert(std::ranges::upper_bound(block.sorted, rest(claim)), rest(claim));
    if (block.children.size() > longest_) {
        const auto half = static_cast<std::ptrdiff_t>(block.children.size() / 2);
        Block later;
        later.children.assign(block.children.begin() + half, block.children.end());
        later.rests.assign(block.rests.begin() + half, block.rests.end());
        block.children.resize(half);
        block.rests.resize(half);
        for (Block* each : {&block, &later}) {
            each->sorted = each->rests;
            std::ranges::sort(each->sorted);
            sum_up(each->sorted, each->sums);
        }
        blocks->insert(blocks->begin() + static_cast<std::ptrdiff_t>(at) + 1, std::move(later));
        return;
    }
    sum_up(block.sorted, block.sums);
}

void ManyChildren::take(std::int32_t child) {
    is_known_ = false;
    const auto& claim = claims_[child];
    minimums_ = minimums_ - Wide(static_cast<std::uint64_t>(claim.minimum));
    bases_ = bases_ - Wide(static_cast<std::uint64_t>(base(claim)));
    if (rest(claim) <= 0) {
        return;
    }
    rests_ = rests_ - Wide(static_cast<std::uint64_t>(rest(claim)));
    if (claim.weight == 0) {
        --unweighted_;
        return;
    }
    const auto [blocks, at] = block_of(child);
    auto& block = (*blocks)[at];
    const auto place = std::ranges::lower_bound(block.children, child) - block.children.begin();
    block.children.erase(block.children.begin() + place);
    block.rests.erase(block.rests.begin() + place);
    block.sorted.erase(std::ranges::lower_bound(block.sorted, rest(claim)));
    sum_up(block.sorted, block.sums);
    if (block.children.empty()) {
        blocks->erase(blocks->begin() + static_cast<std::ptrdiff_t>(at));
    }
    if (blocks->empty()) {
        by_weight_.erase(claim.weight);
    }
}

std::int64_t ManyChildren::runtime(std::int64_t amount, std::int32_t child) {
    if (!is_known_ || amount != amount_) {
        go_through(amount);
    }
    const auto& claim = claims_[child];
    if (is_too_large_) {
        return -1;
    }
    if (rest(claim) <= 0) {
        return base(claim);
    }
    if (is_enough_) {
        return claim.request;
    }
    if (claim.weight == 0) {
        return claim.minimum;
    }
    std::int64_t given = 0;
    for (const auto& round : rounds_) {
        const auto part = part_of(claim.weight, round.amount, round.total, round.rate());
        const bool is_last = part.remainder == round.remainder;
        const bool more = is_last ? child <= round.last : part.remainder > round.remainder;
        given += part.units + (more ? 1 : 0);
        if (given >= rest(claim)) {
            return claim.request;
        }
    }
    return claim.minimum + given;
}

// The rounds in which an amount is divided.
void ManyChildren::go_through(std::int64_t amount) {
    is_known_ = true;
    is_too_large_ = is_enough_ = false;
    amount_ = amount;
    rounds_.clear();
    const Wide there(static_cast<std::uint64_t>(amount));
    if (bases_ >= there) {
        return;
    }
    is_enough_ = unweighted_ == 0 && bases_ + rests_ <= there;
    if (is_enough_) {
        return;
    }
    std::vector<Class> hungry;
    for (const auto& [weight, blocks] : by_weight_) {
        auto& one = hungry.emplace_back();
        one.weight = weight;
        for (const auto& block : blocks) {
            one.parts.push_back({&block, 0, 0, {}, {}});
            one.hungry += static_cast<std::int64_t>(block.sorted.size());
        }
    }
    auto left = amount - static_cast<std::int64_t>(bases_.low);
    while (left > 0 && !hungry.empty()) {
        Round round;
        round.amount = left;
        if (!share(round, hungry)) {
            is_too_large_ = true;
            return;
        }
        rounds_.push_back(round);
        left = 0;
        for (auto& one : hungry) {
            left += give(one, round);
        }
        std::erase_if(hungry, [](const Class& one) { return one.hungry == 0; });
    }
}

// What each weight gets in a round, and which children get one unit more; false: overflow.
bool ManyChildren::share(Round& round, std::vector<Class>& hungry) {
    Wide total;
    for (const auto& one : hungry) {
        total +=
            product(static_cast<std::uint64_t>(one.weight), static_cast<std::uint64_t>(one.hungry));
    }
    if (!are_small(round.amount, total)) {
        return false;
    }
    round.total = static_cast<std::int64_t>(total.low);
    auto left = round.amount;
    for (auto& one : hungry) {
        one.part = part_of(one.weight, round.amount, round.total, round.rate());
        left -= one.part.units * one.hungry;
    }
    round.remainder = kNobody;
    if (left == 0) {
        return true;
    }
    // The remainder of the last child that gets one unit more.
    std::vector<std::pair<std::int64_t, std::int64_t>> among;
    for (const auto& one : hungry) {
        among.emplace_back(one.part.remainder, one.hungry);
    }
    for (;;) {
        const auto middle = among[among.size() / 2].first;
        std::int64_t larger = 0, equal = 0;
        for (const auto& [remainder, many] : among) {
            larger += remainder > middle ? many : 0;
            equal += remainder == middle ? many : 0;
        }
        if (left <= larger) {
            std::erase_if(among, [&](const auto& one) { return one.first <= middle; });
        } else if (left > larger + equal) {
            left -= larger + equal;
            std::erase_if(among, [&](const auto& one) { return one.first >= middle; });
        } else {
            round.remainder = middle;
            round.last = last_of(left - larger, middle, hungry);
            return true;
        }
    }
}

// Of the hungry children with a remainder the last of the first so many.
std::int32_t ManyChildren::last_of(std::int64_t many, std::int64_t remainder,
                                   std::vector<Class>& hungry) {
    std::vector<std::int32_t> found;
    const auto gather = [&](const Share& part) {
        part.for_each([&](std::int32_t child, std::int64_t) { found.push_back(child); });
    };
    const auto is_equal = [&](const Class& one) { return one.part.remainder == remainder; };
    if (std::ranges::count_if(hungry, is_equal) == 1) {
        // Its parts follow one another, so all but one of them need only be counted.
        for (const auto& part : std::ranges::find_if(hungry, is_equal)->parts) {
            const auto here = static_cast<std::int64_t>(part.hungry());
            if (many <= here) {
                gather(part);
                break;
            }
            many -= here;
        }
    } else {
        for (const auto& one : hungry) {
            for (const auto& part : one.parts) {
                if (is_equal(one)) {
                    gather(part);
                }
            }
        }
        std::ranges::nth_element(found, found.begin() + many - 1);
    }
    return found[many - 1];
}

// Gives the hungry children of a weight their part; what they return, as they ask for less.
std::int64_t ManyChildren::give(Class& of, const Round& round) {
    std::int64_t returned = 0;
    of.hungry = 0;
    for (auto& part : of.parts) {
        const bool is_block = part.block != nullptr;
        const auto first = is_block ? part.block->children.front() : part.children.front();
        const auto last = is_block ? part.block->children.back() : part.children.back();
        const bool is_equal = of.part.remainder == round.remainder;
        const bool all = is_equal ? last <= round.last : of.part.remainder > round.remainder;
        if (is_block && !all && is_equal && first <= round.last) {
            // Some of its children get a unit more: they are gone through from now on.
            part.for_each([&](std::int32_t child, std::int64_t rest) {
                part.children.push_back(child);
                part.rests.push_back(rest);
            });
            part.block = nullptr;
            part.given = 0;
        }
        if (part.block != nullptr) {
            part.given += of.part.units + (all ? 1 : 0);
            const auto& sorted = part.block->sorted;
            const auto begin = sorted.begin() + static_cast<std::ptrdiff_t>(part.met);
            const auto met = std::upper_bound(begin, sorted.end(), part.given) - sorted.begin();
            const auto now = static_cast<std::size_t>(met);
            returned += static_cast<std::int64_t>(
                static_cast<std::uint64_t>(part.given) * (now - part.met) -
                (part.block->sums[now] - part.block->sums[part.met]));
            part.met = now;
        } else {
            std::size_t left = 0;
            for (std::size_t i = 0; i < part.children.size(); ++i) {
                const bool more = all || (is_equal && part.children[i] <= round.last);
                const auto after = part.rests[i] - of.part.units - (more ? 1 : 0);
                returned += after < 0 ? -after : 0;
                part.children[left] = part.children[i];
                part.rests[left] = after;
                left += after > 0 ? 1 : 0;
            }
            part.children.resize(left);
            part.rests.resize(left);
        }
        of.hungry += static_cast<std::int64_t>(part.hungry());
    }
    std::erase_if(of.parts, [](const Share& part) { return part.hungry() == 0; });
    return returned;
}

std::uint64_t ManyChildren::bytes() const {
    std::uint64_t sum = sizeof *this + sizeof(Claim) * claims_.capacity();
    for (const auto& [_, blocks] : by_weight_) {
        for (const auto& block : blocks) {
            sum += sizeof block + 4 * block.children.capacity() +
                   8 * (block.rests.capacity() + block.sorted.capacity() + block.sums.capacity());
        }
    }
    return sum;
}

}  // namespace hivecore::quotas
