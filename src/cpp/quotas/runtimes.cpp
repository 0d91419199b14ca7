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

// Minimums of which more is promised than there is, in the scratch space: those that may be scaled
// share what the others leave.
void QuotaTree::scale_minimums(std::int64_t amount, std::span<const QuotaId> children) {
    auto& minimum = scratch_.minimum;
    Wide all, scalable;
    auto left = amount;
    scratch_.scalable.assign(children.size(), 0);
    for (std::size_t i = 0; i < children.size(); ++i) {
        all += static_cast<std::uint64_t>(minimum[i]);
        if (quotas_[children[i]].scales) {
            scalable += static_cast<std::uint64_t>(minimum[i]);
            scratch_.scalable[i] = minimum[i];
        } else {
            left = std::max<std::int64_t>(left - minimum[i], 0);
        }
    }
    if (all <= Wide(static_cast<std::uint64_t>(amount)) || scalable == Wide()) {
        return;
    }
    scratch_.shares.resize(children.size());
    scratch_.fill.share(left, scratch_.scalable, scratch_.shares);
    for (std::size_t i = 0; i < children.size(); ++i) {
        if (quotas_[children[i]].scales) {
            minimum[i] = scratch_.shares[i];
        }
    }
}

// What the children of a parent ask of a dimension, into the scratch space.
void QuotaTree::gather(std::int32_t parent, int dimension) {
    const auto list = children(parent);
    scratch_.request.resize(list.size());
    scratch_.minimum.resize(list.size());
    scratch_.weight.resize(list.size());
    scratch_.runtime.resize(list.size());
    scratch_.lends.resize(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
        const auto place = at(list[i], dimension);
        scratch_.request[i] = fields_[kLimited][place];
        scratch_.minimum[i] = fields_[kMin][place];
        scratch_.weight[i] = fields_[kWeight][place];
        scratch_.lends[i] = lends(list[i]);
    }
    if (options_.scale_min) {
        scale_minimums(shared_amount(parent, dimension), list);
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
        amount(kScaledMin, list[i], dimension) = scratch_.minimum[i];
        if (options_.guarantee) {
            scratch_.minimum[i] = std::max(scratch_.minimum[i], guaranteed(list[i], dimension));
        }
    }
}

void QuotaTree::refresh_children(std::int32_t parent) {
    auto& stale = parent >= 0 ? quotas_[parent].stale : roots_[-1 - parent].stale;
    const auto list = children(parent);
    for (auto rest = stale; rest != 0; rest &= rest - 1) {
        const int d = std::countr_zero(rest);
        if (d >= stride_) {
            break;
        }
        gather(parent, d);
        scratch_.fill.fill(shared_amount(parent, d),
                           {scratch_.request, scratch_.minimum, scratch_.weight, scratch_.lends},
                           scratch_.runtime);
        for (std::size_t i = 0; i < list.size(); ++i) {
            auto& runtime = amount(kRuntime, list[i], d);
            if (runtime != scratch_.runtime[i]) {
                runtime = scratch_.runtime[i];
                quotas_[list[i]].stale |= Dimensions{1} << d;
            }
        }
    }
    stale = 0;
}

// Makes the runtime of a quota what it is.
void QuotaTree::refresh(QuotaId quota) {
    auto& path = scratch_.path;
    path.clear();
    std::int32_t where = quotas_[quota].parent;
    for (; where >= 0; where = quotas_[where].parent) {
        path.push_back(where);
    }
    if (roots_[-1 - where].stale != 0) {
        refresh_children(where);
    }
    for (auto i = path.size(); i-- > 0;) {
        if (quotas_[path[i]].stale != 0) {
            refresh_children(path[i]);
        }
    }
}

void QuotaTree::refresh_all() {
    auto& path = scratch_.path;  // those whose children are still to be looked at
    path.clear();
    for (std::int32_t root = 0; root < roots(); ++root) {
        path.push_back(-1 - root);
        while (!path.empty()) {
            const auto where = path.back();
            path.pop_back();
            if ((where >= 0 ? quotas_[where].stale : roots_[-1 - where].stale) != 0) {
                refresh_children(where);
            }
            for (const auto child : children(where)) {
                if (!quotas_[child].children.empty()) {
                    path.push_back(child);
                }
            }
        }
    }
}

std::span<const std::int64_t> QuotaTree::amounts(QuotaId quota, Field field) {
    if ((field == kRuntime || field == kScaledMin) && !quotas_[quota].is_outside) {
        refresh(quota);
    }
    return {fields_[field].data() + at(quota, 0), static_cast<std::size_t>(stride_)};
}

void QuotaTree::copy_amounts(std::span<const std::int64_t> quotas, Field field,
                             std::int64_t* to) const {
    for (const auto quota : quotas) {
        const auto* row = fields_[field].data() + at(static_cast<QuotaId>(quota), 0);
        to = std::copy_n(row, stride_, to);
    }
}

QuotaTree::Sharing QuotaTree::sharing(std::int32_t parent, int dimension) {
    if (parent >= 0) {
        refresh(parent);
    }
    gather(parent, dimension);
    Sharing found;
    const auto list = children(parent);
    found.amount = shared_amount(parent, dimension);
    found.children.assign(list.begin(), list.end());
    WaterFill fill;
    fill.rounds = &found.rounds;
    fill.fill(found.amount, {scratch_.request, scratch_.minimum, scratch_.weight, scratch_.lends},
              scratch_.runtime);
    found.request = scratch_.request;
    found.minimum = scratch_.minimum;
    found.weight = scratch_.weight;
    found.runtime = scratch_.runtime;
    found.lends = scratch_.lends;
    return found;
}

}  // namespace hivecore::quotas
