// What each quota may use now, from the top down, as far as it is stale.

#include <algorithm>
#include <bit>

#include "common/wide.hpp"
#include "quotas/quota_tree.hpp"

namespace hivecore::quotas {

// What a parent has for its children.
std::int64_t QuotaTree::shared_amount(std::int32_t parent, int dimension) const {
    return parent >= 0 ? amount(kRuntime, parent, dimension) : net_total(-1 - parent, dimension);
}

// Minimums that add up to more than the amount, in the scratch space: those that may be scaled
// share what the others leave.
void QuotaTree::scale_minimums(std::int64_t amount, std::span<const QuotaId> children) {
    auto& minimum = scratch_.minimum;
    Wide all, scalable;
    for (const auto least : minimum) {
        all += static_cast<std::uint64_t>(least);
    }
    if (all <= Wide(static_cast<std::uint64_t>(amount))) {
        return;
    }
    auto left = amount;
    scratch_.scalable.assign(children.size(), 0);
    for (std::size_t i = 0; i < children.size(); ++i) {
        if (node(children[i]).scales) {
            scalable += static_cast<std::uint64_t>(minimum[i]);
            scratch_.scalable[i] = minimum[i];
        } else {
            left = std::max<std::int64_t>(left - minimum[i], 0);
        }
    }
    if (scalable == Wide()) {
        return;
    }
    scratch_.shares.resize(children.size());
    scratch_.fill.share(left, scratch_.scalable, scratch_.shares);
    for (std::size_t i = 0; i < children.size(); ++i) {
        if (node(children[i]).scales) {
            minimum[i] = scratch_.shares[i];
        }
    }
}

// The scaled minimums of the children of a parent, and what each can have for its own children.
//
// They are scaled by what the parent can ever have, so they do not depend on requests. A quota can
// have what the minimums of its siblings leave, its maximum at most; without a weight its minimum.
void QuotaTree::settle_minimums(std::int32_t parent, int dimension) {
    kept_.erase(key(parent, dimension));
    const auto list = children(parent);
    const auto most =
        parent >= 0 ? amount(kReach, parent, dimension) : net_total(-1 - parent, dimension);
    auto& minimum = scratch_.minimum;
    minimum.clear();
    for (const auto child : list) {
        minimum.push_back(amount(kMin, child, dimension));
    }
    if (options_.scale_min) {
        scale_minimums(most, list);
    }
    Wide all;
    for (const auto least : minimum) {
        all += static_cast<std::uint64_t>(least);
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
        const auto child = list[i];
        const auto others = all - Wide(static_cast<std::uint64_t>(minimum[i]));
        const bool is_left = others < Wide(static_cast<std::uint64_t>(most));
        const auto left = is_left ? most - static_cast<std::int64_t>(others.low) : 0;
        const auto reach =
            amount(kWeight, child, dimension) == 0
                ? minimum[i]
                : std::max(minimum[i], std::min(left, amount(kMax, child, dimension)));
        if (amount(kScaledMin, child, dimension) != minimum[i]) {
            change(kScaledMin, child, dimension) = minimum[i];
        }
        if (amount(kReach, child, dimension) != reach) {
            change(kReach, child, dimension) = reach;
            if (!node(child).children.empty()) {
                mark_minimums(child, dimension);
            }
        }
    }
}

// Whether a parent has as much as its children ask for.
bool QuotaTree::is_settled(std::int32_t parent, int dimension) const {
    return options_.parity || parent < 0 ||
           amount(kChildRequest, parent, dimension) <= shared_amount(parent, dimension);
}

// What the children of a parent ask of a dimension, into the scratch space.
//
// Where the parent has less than they ask for, their minimums are scaled by what it has. Elsewhere
// it has little because they ask for little, and nothing of their minimums is missing.
void QuotaTree::gather(std::int32_t parent, int dimension) {
    const auto list = children(parent);
    const bool is_settled = this->is_settled(parent, dimension);
    const auto minimum = is_settled ? kScaledMin : kMin;
    scratch_.request.resize(list.size());
    scratch_.minimum.resize(list.size());
    scratch_.weight.resize(list.size());
    scratch_.runtime.resize(list.size());
    scratch_.lends.resize(list.size());
    const auto plane = static_cast<std::size_t>(kRows) * stride_;  // from field to field
    for (std::size_t i = 0; i < list.size(); ++i) {
        const auto* cell = cells(list[i], dimension);
        // What is used beyond the maximum counts at the parent, and claims nothing.
        scratch_.request[i] =
            std::min(cell[kLimited * plane], std::max<std::int64_t>(cell[kMax * plane], 0));
        scratch_.minimum[i] = cell[minimum * plane];
        scratch_.weight[i] = cell[kWeight * plane];
        scratch_.lends[i] = lends(list[i]);
    }
    if (options_.scale_min && !is_settled) {
        scale_minimums(shared_amount(parent, dimension), list);
    }
    for (std::size_t i = 0; options_.guarantee && i < list.size(); ++i) {
        scratch_.minimum[i] = std::max(scratch_.minimum[i], guaranteed(list[i], dimension));
    }
}

void QuotaTree::refresh_children(std::int32_t parent) {
    if (parent >= 0) {
        nodes_.own(parent / kRows);  // so that the list stays where it is
    }
    const auto list = children(parent);
    const auto plane = static_cast<std::size_t>(kRows) * stride_;
    const bool is_logged = log_.is_on();
    for (auto rest = stale(parent); rest != 0; rest &= rest - 1) {
        const int d = std::countr_zero(rest);
        if (d >= stride_) {
            break;
        }
        if (!options_.parity && (stale_minimums(parent) >> d & 1) != 0) {
            settle_minimums(parent, d);
        }
        gather(parent, d);
        scratch_.fill.fill(shared_amount(parent, d),
                           {scratch_.request, scratch_.minimum, scratch_.weight, scratch_.lends},
                           scratch_.runtime);
        // Which runtimes change is as good as random, so those of a block are all written if one of
        // them has changed, which is looked for first.
        for (std::size_t begin = 0, end = 0; begin < list.size(); begin = end) {
            const auto place = list[begin] / kRows;
            bool is_changed = false;
            for (; end < list.size() && list[end] / kRows == place; ++end) {
                is_changed |= cells(list[end], d)[kRuntime * plane] != scratch_.runtime[end];
            }
            if (!is_changed) {
                continue;
            }
            ++moves_;
            auto& block = nodes_.own(place);
            for (auto i = begin; i < end; ++i) {
                const auto row = list[i] % kRows;
                auto* cell = block.amounts.data() + at(Field{}, row, d);
                const bool is_new = cell[kRuntime * plane] != scratch_.runtime[i];
                if (is_logged && is_new) {
                    log_.add(Place::kAmount, list[i], at(kRuntime, row, d), cell[kRuntime * plane]);
                    log_.add(Place::kOver, list[i], 0,
                             static_cast<std::int64_t>(block.nodes[row].over));
                }
                cell[kRuntime * plane] = scratch_.runtime[i];
                const auto is_over = Dimensions{cell[kUsed * plane] > scratch_.runtime[i]};
                auto& over = block.nodes[row].over;
                over = (over & ~(Dimensions{1} << d)) | is_over << d;
                const auto bit = std::uint64_t{1} << row;
                block.over = (block.over & ~bit) | (over != 0 ? bit : 0);
                if (!block.nodes[row].children.empty() && is_new) {
                    mark_stale(list[i], d);
                }
            }
        }
        if (keeps_many(parent)) {
            ++kept_[key(parent, d)].refreshes;
        }
    }
    unmark(parent);
}

ManyChildren::Claim QuotaTree::claim(QuotaId quota, int dimension) const {
    const auto most = std::max<std::int64_t>(amount(kMax, quota, dimension), 0);
    return {std::min(amount(kLimited, quota, dimension), most), amount(kMin, quota, dimension),
            amount(kWeight, quota, dimension), lends(quota)};
}

// To be called when what a quota asks of its parent has changed.
void QuotaTree::note_request(QuotaId quota, int dimension) {
    const auto parent = node(quota).parent;
    const bool is_shared = !kept_.empty() && !node(quota).is_outside;
    const auto entry = is_shared ? kept_.find(key(parent, dimension)) : kept_.end();
    if (entry == kept_.end() || !entry->second.many) {
        return;
    }
    auto& kept = entry->second;
    kept.changed.push_back(quota);
    if (kept.changed.size() > kept.many->size() / 4) {
        kept.many.reset();
        kept.changed.clear();
    }
}

// The runtime of one of very many children; -1: all have to be looked at.
std::int64_t QuotaTree::runtime_among_many(Kept& kept, std::int32_t parent, QuotaId child,
                                           int dimension) const {
    for (const auto quota : kept.changed) {
        kept.many->set_request(node(quota).position, claim(quota, dimension).request);
    }
    kept.changed.clear();
    const auto available = shared_amount(parent, dimension);
    const bool is_scaled = options_.scale_min && !is_settled(parent, dimension) &&
                           kept.many->minimums() > Wide(static_cast<std::uint64_t>(available));
    return is_scaled ? -1 : kept.many->runtime(available, node(child).position);
}

// Brings one of very many children up to date, in the dimensions in which the sharing is stale, and
// leaves the others; false: all have to be looked at.
bool QuotaTree::refresh_child(std::int32_t parent, QuotaId child) {
    if (!keeps_many(parent) || node(child).is_outside) {
        return false;
    }
    for (auto rest = stale(parent); rest != 0; rest &= rest - 1) {
        const int d = std::countr_zero(rest);
        if (d >= stride_) {
            break;
        }
        auto& kept = kept_[key(parent, d)];
        const bool is_settled = (stale_minimums(parent) >> d & 1) == 0;
        if (!is_settled || kept.refreshes < kRefreshes || kept.is_unfit) {
            return false;
        }
        if (!kept.many) {
            std::vector<ManyChildren::Claim> claims;
            for (const auto each : children(parent)) {
                kept.is_unfit |= amount(kScaledMin, each, d) != amount(kMin, each, d);
                claims.push_back(claim(each, d));
            }
            kept.many.emplace(std::move(claims));
            kept.is_unfit |= !kept.many->is_worth_it();
            if (kept.is_unfit) {
                kept.many.reset();
                return false;
            }
        }
        const auto runtime = runtime_among_many(kept, parent, child, d);
        if (runtime < 0) {
            return false;
        }
        if (amount(kRuntime, child, d) != runtime) {
            change(kRuntime, child, d) = runtime;
            compare_to_runtime(child, d);
            if (!node(child).children.empty()) {
                mark_stale(child, d);
            }
        }
    }
    return true;
}

// The minimum of a quota as the original scales it, in floats, when that quota or one below it is
// read; its siblings keep what they had.
void QuotaTree::scale_like_original(QuotaId quota) {
    const auto parent = node(quota).parent;
    std::vector<std::int64_t> scaled;
    for (int d = 0; d < stride_; ++d) {
        const auto available = shared_amount(parent, d);
        Wide all, scalable, fixed;
        for (const auto child : children(parent)) {
            const auto least = static_cast<std::uint64_t>(amount(kMin, child, d));
            all += least;
            (node(child).scales ? scalable : fixed) += least;
        }
        scaled.push_back(amount(kMin, quota, d));
        if (all <= Wide(static_cast<std::uint64_t>(available))) {
            continue;
        }
        const bool is_left = fixed < Wide(static_cast<std::uint64_t>(available));
        scaled[d] =
            !is_left || scalable == Wide()
                ? 0
                : static_cast<std::int64_t>(
                      static_cast<double>(available - static_cast<std::int64_t>(fixed.low)) *
                      static_cast<double>(amount(kMin, quota, d)) / scalable.as_signed_double());
    }
    set_scaled_min(quota, scaled);
}

void QuotaTree::set_scaled_min(QuotaId quota, std::span<const std::int64_t> values) {
    for (int d = 0; d < stride_; ++d) {
        if (amount(kScaledMin, quota, d) != values[d]) {
            change(kScaledMin, quota, d) = values[d];
            mark_stale(node(quota).parent, d);
        }
    }
}

// Makes the runtime of a quota what it is.
void QuotaTree::refresh(QuotaId quota) {
    auto& path = scratch_.path;
    path.clear();
    std::int32_t where = node(quota).parent;
    for (; where >= 0; where = node(where).parent) {
        path.push_back(where);
    }
    path.push_back(where);
    std::ranges::reverse(path);
    for (std::size_t i = 0; i < path.size(); ++i) {
        const auto child = i + 1 < path.size() ? path[i + 1] : quota;
        if (options_.parity && options_.scale_min && node(child).scales) {
            scale_like_original(child);
        }
        if (stale(path[i]) != 0 && !refresh_child(path[i], child)) {
            refresh_children(path[i]);
        }
    }
}

void QuotaTree::refresh_all() {
    if (options_.parity) {
        std::vector<QuotaId> all;
        for (QuotaId quota = 0; quota < size(); ++quota) {
            if (node(quota).is_alive && !node(quota).is_outside) {
                all.push_back(quota);
            }
        }
        std::ranges::sort(all, {}, [&](auto quota) { return order()[quota]; });
        for (const auto quota : all) {
            refresh(quota);
        }
        return;
    }
    for (std::int32_t root = 0; root < roots(); ++root) {
        if (stale(-1 - root) != 0) {
            refresh_children(-1 - root);
        }
    }
    for (bool is_stale = true; is_stale;) {
        is_stale = false;
        for (std::size_t i = 0; i < nodes_.size(); ++i) {
            while (nodes_[i].stale != 0) {
                const auto quota =
                    static_cast<QuotaId>(i) * kRows + std::countr_zero(nodes_[i].stale);
                if (children(quota).empty()) {
                    unmark(quota);
                    continue;
                }
                refresh(quota);
                if (stale(quota) != 0) {
                    refresh_children(quota);
                }
                is_stale = true;  // maybe some before it
            }
        }
    }
}

std::span<const std::int64_t> QuotaTree::amounts(QuotaId quota, Field field) {
    const bool follows = field == kRuntime || (field == kScaledMin && !options_.parity);
    if (follows && !node(quota).is_outside) {
        refresh(quota);
    }
    return row(field, quota);
}

void QuotaTree::copy_amounts(std::span<const std::int64_t> quotas, Field field,
                             std::int64_t* to) const {
    for (const auto quota : quotas) {
        to = std::ranges::copy(row(field, static_cast<QuotaId>(quota)), to).out;
    }
}

QuotaTree::Sharing QuotaTree::sharing(std::int32_t parent, int dimension) {
    if (parent >= 0) {
        refresh(parent);
    }
    if (stale(parent) != 0) {
        refresh_children(parent);
    }
    gather(parent, dimension);
    Sharing division;
    const auto list = children(parent);
    division.amount = shared_amount(parent, dimension);
    division.children.assign(list.begin(), list.end());
    WaterFill fill;
    fill.rounds = &division.rounds;
    fill.fill(division.amount,
              {scratch_.request, scratch_.minimum, scratch_.weight, scratch_.lends},
              scratch_.runtime);
    division.request = scratch_.request;
    division.minimum = scratch_.minimum;
    division.weight = scratch_.weight;
    division.runtime = scratch_.runtime;
    division.lends = scratch_.lends;
    return division;
}

}  // namespace hivecore::quotas
