#include "quotas/water_fill.hpp"

#include <algorithm>

#include "common/wide.hpp"

namespace hivecore::quotas {
namespace {

Wide sum_of(std::span<const std::int64_t> values) {
    Wide sum;
    for (const auto value : values) {
        sum += static_cast<std::uint64_t>(value);
    }
    return sum;
}

}  // namespace

void WaterFill::fill(std::int64_t amount, const Claims& claims, std::span<std::int64_t> runtime) {
    // Branches on what is as good as random cost more than all else here: everybody is written, and
    // the place of the next one moves on or not.
    child_.resize(claims.size());
    weight_.resize(claims.size());
    rest_.resize(claims.size());
    std::size_t hungry = 0;
    Wide bases;
    for (std::size_t i = 0; i < claims.size(); ++i) {
        const auto request = claims.request[i], minimum = claims.minimum[i];
        const bool is_lent = claims.lends[i] != 0 && request < minimum;
        runtime[i] = is_lent ? request : minimum;
        child_[hungry] = static_cast<std::int32_t>(i);
        weight_[hungry] = claims.weight[i];
        rest_[hungry] = request - minimum;
        hungry += request > minimum ? 1 : 0;
        bases += static_cast<std::uint64_t>(runtime[i]);
    }
    keep(hungry);
    if (bases >= Wide(static_cast<std::uint64_t>(amount))) {
        return;
    }
    auto left = amount - static_cast<std::int64_t>(bases.low);
    while (left > 0 && std::ranges::any_of(weight_, [](auto weight) { return weight > 0; })) {
        share_hungry(left);
        if (rounds != nullptr) {
            rounds->push_back({left, child_, share_});
        }
        left = 0;
        hungry = 0;
        for (std::size_t k = 0; k < child_.size(); ++k) {
            const auto rest = rest_[k], taken = std::min(share_[k], rest);
            runtime[child_[k]] += taken;
            left += share_[k] - taken;
            child_[hungry] = child_[k];
            weight_[hungry] = weight_[k];
            rest_[hungry] = rest - taken;
            hungry += rest > taken ? 1 : 0;
        }
        keep(hungry);
    }
}

// Of the hungry only the first so many are still there.
void WaterFill::keep(std::size_t hungry) {
    child_.resize(hungry);
    weight_.resize(hungry);
    rest_.resize(hungry);
}

void WaterFill::share(std::int64_t amount, std::span<const std::int64_t> weights,
                      std::span<std::int64_t> shares) {
    weight_.assign(weights.begin(), weights.end());
    share_hungry(amount);
    std::ranges::copy(share_, shares.begin());
}

// The parts of an amount by `weight_`, in `share_`.
void WaterFill::share_hungry(std::int64_t amount) {
    share_.resize(weight_.size());
    remainder_.resize(weight_.size());
    const auto total = sum_of(weight_);
    if (are_small(amount, total)) {
        share_quickly(amount, static_cast<std::int64_t>(total.low));
    } else {
        share_exactly(amount);
    }
}

void WaterFill::share_quickly(std::int64_t amount, std::int64_t total) {
    const double rate = static_cast<double>(amount) / static_cast<double>(total);
    std::int64_t given = 0;
    for (std::size_t k = 0; k < weight_.size(); ++k) {
        const auto part = part_of(weight_[k], amount, total, rate);
        share_[k] = part.units;
        remainder_[k] = part.remainder;
        given += part.units;
    }
    give_left(amount - given, total);
}

// A unit more for those with the largest remainders.
void WaterFill::give_left(std::int64_t left, std::int64_t total) {
    if (left == 0) {
        return;
    }
    // Buckets by the size of the remainder; only the one in which the last of them is is looked
    // into.
    const auto count = static_cast<std::int32_t>(weight_.size() / 4 + 1);
    const double scale = static_cast<double>(count) / static_cast<double>(total);
    const auto bucket_of = [&](std::int64_t remainder) {
        return std::min(static_cast<std::int32_t>(static_cast<double>(remainder) * scale),
                        count - 1);
    };
    buckets_.assign(count, 0);
    for (const auto remainder : remainder_) {
        ++buckets_[bucket_of(remainder)];
    }
    auto last = count - 1;
    while (left > buckets_[last]) {
        left -= buckets_[last--];
    }
    places_.clear();
    const auto size = static_cast<std::int32_t>(weight_.size());
    for (std::int32_t k = 0; k < size; ++k) {
        const auto bucket = bucket_of(remainder_[k]);
        if (bucket == last) {
            places_.push_back(k);
        }
        share_[k] += bucket > last ? 1 : 0;
    }
    const auto middle = places_.begin() + left;
    std::nth_element(places_.begin(), middle - 1, places_.end(), [&](auto a, auto b) {
        return remainder_[a] != remainder_[b] ? remainder_[a] > remainder_[b] : a < b;
    });
    for (auto place = places_.begin(); place != middle; ++place) {
        ++share_[*place];
    }
}

void WaterFill::share_exactly(std::int64_t amount) {
    const auto total = sum_of(weight_);
    std::vector<Wide> remainders(weight_.size());
    std::int64_t left = amount;
    places_.clear();
    for (std::size_t k = 0; k < weight_.size(); ++k) {
        const auto part = divide(
            product(static_cast<std::uint64_t>(weight_[k]), static_cast<std::uint64_t>(amount)),
            total);
        share_[k] = part.quotient;
        remainders[k] = part.rest;
        left -= part.quotient;
        places_.push_back(static_cast<std::int32_t>(k));
    }
    if (left == 0) {
        return;
    }
    const auto middle = places_.begin() + left;
    std::nth_element(places_.begin(), middle - 1, places_.end(), [&](auto a, auto b) {
        return remainders[a] != remainders[b] ? remainders[a] > remainders[b] : a < b;
    });
    for (auto place = places_.begin(); place != middle; ++place) {
        ++share_[*place];
    }
}

void fill_all(std::span<const std::int64_t> amounts, const Claims& claims,
              std::span<std::int64_t> runtime) {
    // Kept: new pages for it take longer than the rest.
    static thread_local WaterFill water;
    const auto children = claims.lends.size();
    for (std::size_t d = 0; d < amounts.size(); ++d) {
        const auto of = [&](auto all) { return all.subspan(d * children, children); };
        water.fill(amounts[d],
                   {of(claims.request), of(claims.minimum), of(claims.weight), claims.lends},
                   of(runtime));
    }
}

}  // namespace hivecore::quotas
