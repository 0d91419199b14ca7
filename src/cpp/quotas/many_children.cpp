#include "quotas/many_children.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace hivecore::quotas {
namespace {

constexpr auto kNobody = std::numeric_limits<std::int64_t>::max();  // no remainder is larger
constexpr std::int32_t kTogether = 16;  // places that are counted at once
constexpr int kBits = 7;                // of the number of a bucket

std::int64_t base(const ManyChildren::Claim& claim) {
    return claim.lends ? std::min(claim.request, claim.minimum) : claim.minimum;
}

std::int64_t rest(const ManyChildren::Claim& claim) {
    return claim.request - claim.minimum;
}

}  // namespace

// From a place on. A sum that is too large starts again from 0, as do differences, which are right
// then.
void ManyChildren::Sorted::sum_up(std::size_t begin) {
    sums.resize(rests.size() + 1);
    for (auto i = begin; i < rests.size(); ++i) {
        sums[i + 1] = sums[i] + static_cast<std::uint64_t>(rests[i]);
    }
}

ManyChildren::ManyChildren(std::vector<Claim> claims)
    : claims_(std::move(claims)), places_(size()), children_(size()) {
    std::iota(children_.begin(), children_.end(), 0);
    std::ranges::stable_sort(children_, {}, [&](auto child) { return claims_[child].weight; });
    const auto longest = static_cast<std::int32_t>(3 * std::sqrt(static_cast<double>(size())));
    for (std::int32_t place = 0; place < std::ssize(children_); ++place) {
        const auto& claim = claims_[children_[place]];
        places_[children_[place]] = place;
        rests_.push_back(rest(claim));
        count(claim, true);
        const bool is_new = classes_.empty() || classes_.back().weight != claim.weight;
        if (is_new) {
            classes_.emplace_back().weight = claim.weight;
            classes_.back().begin = static_cast<std::int32_t>(blocks_.size());
        }
        if (is_new || place - blocks_.back().begin > longest) {
            blocks_.emplace_back().begin = place;
        }
        block_of_.push_back(static_cast<std::int32_t>(blocks_.size()) - 1);
        blocks_.back().end = place + 1;
        classes_.back().end = block_of_.back() + 1;
    }
    sorted_.resize(blocks_.size());
    remembered_.resize(blocks_.size() * kRemembered);
    std::vector<std::pair<std::int64_t, std::int32_t>> hungry;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
        hungry.clear();
        for (auto place = blocks_[i].begin; place < blocks_[i].end; ++place) {
            if (rests_[place] > 0) {
                hungry.emplace_back(rests_[place], children_[place]);
            }
        }
        std::ranges::sort(hungry);
        for (const auto& [rest, child] : hungry) {
            sorted_[i].rests.push_back(rest);
            sorted_[i].children.push_back(child);
        }
        sorted_[i].sum_up(0);
        blocks_[i].size = static_cast<std::int32_t>(hungry.size());
    }
}

// A child in the sums, or no longer.
void ManyChildren::count(const Claim& claim, bool is_in) {
    const auto change = [&](Wide& sum, std::int64_t amount) {
        const Wide by(static_cast<std::uint64_t>(amount));
        sum = is_in ? sum + by : sum - by;
    };
    change(all_minimums_, claim.minimum);
    change(all_bases_, base(claim));
    if (rest(claim) > 0) {
        change(all_rests_, rest(claim));
        change(all_weights_, claim.weight);
        unweighted_ += claim.weight > 0 ? 0 : is_in ? 1 : -1;
    }
}

void ManyChildren::set_request(std::int32_t child, std::int64_t request) {
    auto& claim = claims_[child];
    const auto place = places_[child];
    const auto before = rests_[place], after = request - claim.minimum;
    if (after == before) {
        return;
    }
    is_known_ = false;
    count(claim, false);
    claim.request = request;
    count(claim, true);
    rests_[place] = after;
    // A child that is not hungry comes from the end of the list, or goes there.
    const auto block = block_of_[place];
    auto& rests = sorted_[block].rests;
    auto& children = sorted_[block].children;
    if (before <= 0) {
        rests.push_back(kNobody);
        children.push_back(child);
    }
    const auto find = [&](std::int64_t rest) {
        return std::ranges::lower_bound(rests, rest > 0 ? rest : kNobody) - rests.begin();
    };
    auto from = find(before), to = find(after);
    while (children[from] != child) {
        ++from;
    }
    to -= from < to ? 1 : 0;
    const auto low = std::min(from, to), high = std::max(from, to) + 1;
    const auto middle = from < to ? low + 1 : high - 1;
    rests[from] = after;
    std::rotate(rests.begin() + low, rests.begin() + middle, rests.begin() + high);
    std::rotate(children.begin() + low, children.begin() + middle, children.begin() + high);
    if (after <= 0) {
        rests.pop_back();
        children.pop_back();
    }
    sorted_[block].sum_up(static_cast<std::size_t>(low));
    blocks_[block].size = static_cast<std::int32_t>(rests.size());
    for (auto i = static_cast<std::size_t>(block); i < remembered_.size(); i += blocks_.size()) {
        remembered_[i].low = remembered_[i].high = 0;
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
    const Wide available(static_cast<std::uint64_t>(amount));
    if (all_bases_ >= available) {
        return;
    }
    is_enough_ = unweighted_ == 0 && all_bases_ + all_rests_ <= available;
    if (is_enough_) {
        return;
    }
    auto left = amount - static_cast<std::int64_t>(all_bases_.low);
    is_too_large_ = !are_small(left, all_weights_);
    if (is_too_large_) {
        return;
    }
    more_.clear();
    hungry_ = classes_;
    for (auto& peers : hungry_) {
        for (auto i = peers.begin; i < peers.end; ++i) {
            auto& block = blocks_[i];
            block.hungry = block.size;
            block.met = 0;
            block.met_sum = 0;
            block.given = 0;
            block.more = -1;
            peers.hungry += block.hungry;
        }
    }
    while (left > 0) {
        std::erase_if(hungry_, [](const Class& peers) { return peers.hungry * peers.weight == 0; });
        if (hungry_.empty()) {
            return;
        }
        Round round;
        round.amount = left;
        share(round);
        left = give(round);
        rounds_.push_back(round);
    }
}

// What each weight gets in a round, and which children get one unit more.
void ManyChildren::share(Round& round) {
    for (const auto& peers : hungry_) {
        round.total += peers.weight * peers.hungry;
    }
    const auto rate = round.rate();
    auto left = round.amount;
    std::int64_t largest = 0;
    for (auto& peers : hungry_) {
        peers.part = part_of(peers.weight, round.amount, round.total, rate);
        left -= peers.part.units * peers.hungry;
        largest = std::max(largest, peers.part.remainder);
    }
    round.remainder = kNobody;
    if (left == 0) {
        return;
    }
    // The remainder of the last child that gets one unit more: only the bucket with it is sorted.
    const auto bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(largest)));
    const auto shift = std::max(bits - kBits, 0);
    std::array<std::int64_t, 1 << kBits> buckets{};
    for (const auto& peers : hungry_) {
        buckets[peers.part.remainder >> shift] += peers.hungry;
    }
    auto bucket = largest >> shift;
    while (left > buckets[bucket]) {
        left -= buckets[bucket--];
    }
    remainders_.clear();
    for (std::size_t i = 0; i < hungry_.size(); ++i) {
        if (hungry_[i].part.remainder >> shift == bucket) {
            remainders_.emplace_back(hungry_[i].part.remainder, i);
        }
    }
    std::ranges::sort(remainders_, std::greater<>());
    for (auto first = remainders_.begin(), end = first;; first = end) {
        round.remainder = first->first;
        std::int64_t many = 0;
        for (; end != remainders_.end() && end->first == round.remainder; ++end) {
            many += hungry_[end->second].hungry;
        }
        if (left <= many) {
            round.last = last_of(left, {first, end});
            return;
        }
        left -= many;
    }
}

// To a child of a block that is still hungry.
std::int64_t ManyChildren::given_to(std::int32_t block, std::int32_t child) const {
    auto given = blocks_[block].given;
    for (auto i = blocks_[block].more; i >= 0; i = more_[i].second) {
        given += child <= more_[i].first ? 1 : 0;
    }
    return given;
}

// Of the hungry children of weights with equal remainders the last of the first so many.
std::int32_t ManyChildren::last_of(std::int64_t many, std::span<const Remainder> equal) {
    const bool is_alone = equal.size() == 1;
    some_.clear();
    for (const auto& [_, which] : equal) {
        for (auto i = hungry_[which].begin; i < hungry_[which].end; ++i) {
            const auto& block = blocks_[i];
            // Blocks of a weight follow one another, so all but one of them need only be counted.
            if (is_alone && many > block.hungry) {
                many -= block.hungry;
                continue;
            }
            auto place = block.begin;
            for (; is_alone && block.more < 0 && place + kTogether <= block.end;
                 place += kTogether) {
                const auto* rests = rests_.data() + place;
                const auto here = std::count_if(rests, rests + kTogether,
                                                [&](auto each) { return each > block.given; });
                if (many <= here) {
                    break;
                }
                many -= here;
            }
            for (; place < block.end; ++place) {
                const auto child = children_[place];
                if (rests_[place] > given_to(i, child)) {
                    some_.push_back(child);
                }
                if (is_alone && std::ssize(some_) == many) {
                    return child;
                }
            }
        }
    }
    std::ranges::nth_element(some_, some_.begin() + many - 1);
    return some_[many - 1];
}

// Gives all hungry children their parts; what they return, as they ask for less.
std::int64_t ManyChildren::give(const Round& round) {
    const auto which = std::min(rounds_.size(), kRemembered - 1);
    auto* remembered = remembered_.data() + which * blocks_.size();
    auto* blocks = blocks_.data();
    std::int64_t returned = 0;
    for (auto& peers : hungry_) {
        const bool is_equal = peers.part.remainder == round.remainder;
        bool more = peers.part.remainder > round.remainder;
        for (auto i = peers.begin; i < peers.end; ++i) {
            auto& block = blocks[i];
            std::int32_t last = -1;
            if (is_equal) {
                more = children_[block.end - 1] <= round.last;
                last = !more && children_[block.begin] <= round.last ? round.last : -1;
            }
            const auto share = peers.part.units + (more ? 1 : 0);
            if (last >= 0 || block.more >= 0) {
                const auto hungry = block.hungry;
                returned += raise_unevenly(i, share, last);
                peers.hungry -= hungry - block.hungry;
                continue;
            }
            if (share == 0) {
                break;  // nor do those after it get any
            }
            block.given += share;
            auto& latest = remembered[i];
            if (block.given < latest.low || block.given >= latest.high) {
                search(i, latest);
            }
            const auto met = latest.many - block.met;
            returned += static_cast<std::int64_t>(static_cast<std::uint64_t>(block.given) * met -
                                                  (latest.sum - block.met_sum));
            block.met = latest.many;
            block.met_sum = latest.sum;
            block.hungry -= met;
            peers.hungry -= met;
        }
    }
    return returned;
}

// Gives the hungry children of a block a share, and one unit more up to the last one; what they
// return.
std::int64_t ManyChildren::raise_unevenly(std::int32_t block, std::int64_t share,
                                          std::int32_t last) {
    auto& [begin, end, size, hungry, met, met_sum, given, more] = blocks_[block];
    const auto& [rests, children, sums] = sorted_[block];
    std::int64_t returned = 0;
    const auto most = given + share + std::ssize(rounds_) + 1;
    for (auto i = met; i < size && rests[i] <= most; ++i) {
        const auto before = given_to(block, children[i]);
        const auto after = before + share + (children[i] <= last ? 1 : 0);
        if (before < rests[i] && rests[i] <= after) {
            returned += after - rests[i];
            --hungry;
        }
    }
    given += share;
    while (met < size && rests[met] <= given) {
        ++met;
    }
    if (last >= 0) {
        more_.emplace_back(last, more);
        more = static_cast<std::int32_t>(more_.size()) - 1;
    }
    return returned;
}

// How many rests are not above what is given. They are likely to be almost as many as the last
// time, but how many is as good as random, so all that are near are compared.
void ManyChildren::search(std::int32_t block, Met& latest) const {
    constexpr std::int32_t kNear = 4;
    const auto& [rests, children, sums] = sorted_[block];
    const auto size = blocks_[block].size;
    const auto given = blocks_[block].given;
    const auto low = std::min(std::max(latest.many, kNear) - kNear, size);
    const auto high = std::min(low + 2 * kNear, size);
    auto many = low;
    for (auto i = low; i < high; ++i) {
        many += rests[i] <= given ? 1 : 0;
    }
    if ((many == low && low > 0) || (many == high && high < size)) {
        many = static_cast<std::int32_t>(std::ranges::upper_bound(rests, given) - rests.begin());
    }
    latest.many = many;
    latest.sum = sums[many];
    latest.low = many == 0 ? 0 : rests[many - 1];
    latest.high = many == size ? kNobody : rests[many];
}

std::uint64_t ManyChildren::bytes() const {
    std::uint64_t sum = sizeof *this + (sizeof(Claim) + 20) * size() +
                        2 * sizeof(Class) * classes_.size() +
                        (sizeof(Block) + kRemembered * sizeof(Met)) * blocks_.size();
    for (const auto& each : sorted_) {
        sum += sizeof each + 8 * (each.rests.capacity() + each.sums.capacity()) +
               4 * each.children.capacity();
    }
    return sum;
}

}  // namespace hivecore::quotas
