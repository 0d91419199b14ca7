#include "cells/planning/occupants.hpp"

#include <algorithm>
#include <functional>

#include "cells/planning/unit_choice.hpp"

namespace hivecore::cells {

namespace {

constexpr Harm kNoHarm{0, 0, 0};
constexpr std::size_t kMostEntries = 1 << 20;  // of the covering program
constexpr Harm kTooMuch{std::uint64_t{1} << 62, 0, 0};

bool is_in(std::span<const Handle> handles, Handle handle) {
    return std::find(handles.begin(), handles.end(), handle) != handles.end();
}

}  // namespace

Harm operator+(const Harm& harm, const Harm& other) {
    return {harm[0] + other[0], harm[1] + other[1], harm[2] + other[2]};
}

void Occupants::start(const Groups& groups, const UnitChoice& unit_choice,
                      std::span<const Handle> downgraded) {
    groups_ = &groups;
    unit_choice_ = &unit_choice;
    first_leaf_ = groups.first_leaf(unit_choice.chain());
    downgraded_ = downgraded;
    gone_.clear();
}

Harm Occupants::price(Handle handle) const {
    const Group& group = groups_->group(handle);
    const std::uint64_t many = groups_->leaves(handle).size();
    if (is_in(gone_, handle)) {
        return kNoHarm;
    }
    if (!group.guaranteed || is_in(downgraded_, handle)) {
        return {0, many, 1};
    }
    return group.lazy ? Harm{many, 0, 0} : Harm{many, many, 1};
}

// The groups that lose something, in the order of their first leaves.
std::vector<Occupants::Occupant> Occupants::on(std::span<const CellIndex> leaves) const {
    std::vector<Occupant> occupants;
    for (const CellIndex leaf : leaves) {
        const Handle user = groups_->user(first_leaf_ + leaf);
        if (user == kNoGroup) {
            continue;
        }
        const auto known =
            std::find_if(occupants.begin(), occupants.end(),
                         [&](const Occupant& occupant) { return occupant.handle == user; });
        if (known != occupants.end()) {
            ++known->leaves;
        } else if (const Harm cost = price(user); cost != kNoHarm) {
            occupants.push_back({user, 1, cost});
        }
    }
    return occupants;
}

bool Occupants::choose(int level, CellIndex cell, std::span<const Demand> pods, int group_within,
                       std::span<const Handle> staying, std::vector<CellIndex>& out) {
    if (staying.empty()) {
        unit_choice_->look_into(leaves_, level, cell);
    } else {
        unit_choice_->look_into(leaves_, level, cell, [&](CellIndex leaf) {
            return is_in(staying, groups_->user(first_leaf_ + leaf));
        });
    }
    return leaves_.take_all(pods, group_within, out);
}

bool Occupants::take(int level, CellIndex cell, std::span<const Demand> pods, int group_within,
                     std::vector<CellIndex>& out) {
    const std::size_t before = out.size();
    if (!choose(level, cell, pods, group_within, {}, out)) {
        return false;
    }
    const auto chosen = [&] { return std::span<const CellIndex>(out).subspan(before); };
    if (unit_choice_->reach() != Reach::idle && !on(chosen()).empty()) {
        out.resize(before);
        spare(level, cell, pods, group_within, out);
        for (const Occupant& occupant : on(chosen())) {
            gone_.push_back(occupant.handle);
        }
    }
    return true;
}

// Chooses leaves for pods that fit, so that only the cheapest occupants have to leave.
void Occupants::spare(int level, CellIndex cell, std::span<const Demand> pods, int group_within,
                      std::vector<CellIndex>& out) {
    const Shape& shape = groups_->virtual_cells().physical(unit_choice_->chain()).shape();
    std::vector<CellIndex> mine;
    for (CellIndex leaf = cell * shape.leaves[level]; leaf < (cell + 1) * shape.leaves[level];
         ++leaf) {
        if (unit_choice_->leaf_class(leaf) != LeafChoice::kTaken) {
            mine.push_back(leaf);
        }
    }
    std::vector<Occupant> occupants = on(mine);
    int candidate_level = group_within < 0 ? level : std::min(level, group_within);
    if (pods.size() == 1 && pods.front().within >= 0) {
        candidate_level = std::min<int>(candidate_level, pods.front().within);
    }
    std::vector<Handle> staying;
    const bool confined = std::any_of(pods.begin(), pods.end(), [&](const Demand& pod) {
        return pod.within >= 0 && pod.within < candidate_level;
    });
    if (confined || occupants.size() * mine.size() > kMostEntries) {
        std::stable_sort(occupants.begin(), occupants.end(),
                         [](const Occupant& a, const Occupant& b) { return a.price > b.price; });
        const std::size_t before = out.size();
        for (const Occupant& occupant : occupants) {
            staying.push_back(occupant.handle);
            if (!choose(level, cell, pods, group_within, staying, out)) {
                staying.pop_back();
            }
            out.resize(before);
        }
        choose(level, cell, pods, group_within, staying, out);
        return;
    }
    std::uint64_t total = 0;
    for (const Demand& pod : pods) {
        total += pod.leaves;
    }
    Harm least = kTooMuch;
    std::vector<Handle> leaving;
    std::vector<Handle> cover;
    for (int below = 0; below <= candidate_level; ++below) {  // of equal harm the closest together
        for (auto begin = mine.begin(); begin != mine.end();) {
            const CellIndex candidate = shape.ancestor(0, *begin, below);
            const auto end = std::find_if(begin, mine.end(), [&](CellIndex leaf) {
                return shape.ancestor(0, leaf, below) != candidate;
            });
            const std::span<const CellIndex> inside(begin, end);
            begin = end;
            if (inside.size() >= total) {
                if (const Harm harm = cheapest(inside, total, cover); harm < least) {
                    least = harm;
                    leaving = cover;
                }
            }
        }
    }
    for (const Occupant& occupant : occupants) {
        if (!is_in(leaving, occupant.handle)) {
            staying.push_back(occupant.handle);
        }
    }
    choose(level, cell, pods, group_within, staying, out);
}

// Occupants whose going leaves so many of the leaves, and the harm; of equal ones the first.
Harm Occupants::cheapest(std::span<const CellIndex> leaves, std::uint64_t count,
                         std::vector<Handle>& leaving) const {
    leaving.clear();
    const std::vector<Occupant> occupants = on(leaves);
    std::uint64_t held = 0;
    for (const Occupant& occupant : occupants) {
        held += occupant.leaves;
    }
    const std::uint64_t others = leaves.size() - held;
    std::size_t missing = count > others ? count - others : 0;
    // Row i: the least harm for so many leaves of the occupants from the i-th on.
    const std::size_t width = missing + 1;
    std::vector<Harm> least((occupants.size() + 1) * width, kTooMuch);
    least[occupants.size() * width] = kNoHarm;
    const auto going = [&](std::size_t i, std::size_t more) {
        const std::size_t rest = more - std::min<std::size_t>(more, occupants[i].leaves);
        return occupants[i].price + least[(i + 1) * width + rest];
    };
    for (std::size_t i = occupants.size(); i-- > 0;) {
        for (std::size_t more = 0; more < width; ++more) {
            least[i * width + more] = std::min(least[(i + 1) * width + more], going(i, more));
        }
    }
    const Harm harm = least[missing];
    for (std::size_t i = 0; i < occupants.size(); ++i) {
        if (missing != 0 && least[i * width + missing] == going(i, missing)) {
            leaving.push_back(occupants[i].handle);
            missing -= std::min<std::size_t>(missing, occupants[i].leaves);
        }
    }
    return harm;
}

}  // namespace hivecore::cells
