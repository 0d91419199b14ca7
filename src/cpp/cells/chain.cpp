#include "cells/chain.hpp"

#include <algorithm>
#include <bit>
#include <tuple>

namespace hivecore::cells {

Chain::Chain(const Shape& shape) : shape_(shape), rows_(shape.levels) {
    for (int level = 0; level < shape_.levels; ++level) {
        Row& row = rows_[level];
        const CellIndex size = shape_.size[level];
        const std::uint64_t keys = (std::uint64_t{shape_.leaves[level]} + 1) * size;
        row.state.assign(size, State::inside);
        row.healthy.assign(size, static_cast<std::uint8_t>(level + 1));
        row.idle = row.healthy;
        row.load.assign(size, 0);
        row.user.assign(size, 0);
        for (int cls = 1; cls <= level + 1; ++cls) {
            row.by_health.classes[cls] = IndexSet(keys);
            const std::uint64_t idle_keys = cls == level + 1 ? size : keys;
            row.listed_hosts.classes[cls] = IndexSet(idle_keys);
            row.root_hosts.classes[cls] = IndexSet(idle_keys);
        }
    }
    for (CellIndex cell = 0; cell < shape_.size[shape_.top()]; ++cell) {
        list(shape_.top(), cell);
    }
}

std::array<std::int64_t, kMaxLevels> Chain::surplus() const {
    std::array<std::int64_t, kMaxLevels> result{};
    std::int64_t above = 0;
    for (int level = shape_.levels; level-- > 0;) {
        const std::int64_t free = std::int64_t{rows_[level].listed} - rows_[level].owed;
        above = level == shape_.top() ? free : above * shape_.fanout[level] + free;
        result[level] = above;
    }
    return result;
}

// --- hosts in their orders

void Chain::insert(Order& order, int cls, std::uint64_t key) {
    if (cls != 0) {
        order.classes[cls].insert(key);
        order.present |= 1u << cls;
    }
}

void Chain::erase(Order& order, int cls, std::uint64_t key) {
    if (cls != 0) {
        order.classes[cls].erase(key);
        if (order.classes[cls].empty()) {
            order.present &= ~(1u << cls);
        }
    }
}

// Calls apply(order, class, key) for each order that holds the host.
template <class Apply>
void Chain::for_orders(int level, CellIndex cell, Apply apply) {
    Row& row = rows_[level];
    const std::uint64_t k = key(level, cell);
    if (row.state[cell] == State::listed) {
        apply(row.by_health, row.healthy[cell], k);
        apply(row.listed_hosts, row.idle[cell], k);
    } else {
        apply(row.root_hosts, row.idle[cell], k);
    }
}

void Chain::enter(int level, CellIndex cell) {
    for_orders(level, cell, [](Order& order, int cls, std::uint64_t k) { insert(order, cls, k); });
}

void Chain::leave(int level, CellIndex cell) {
    for_orders(level, cell, [](Order& order, int cls, std::uint64_t k) { erase(order, cls, k); });
}

void Chain::list(int level, CellIndex cell) {
    rows_[level].state[cell] = State::listed;
    ++rows_[level].listed;
    enter(level, cell);
}

void Chain::unlist(int level, CellIndex cell, State state) {
    leave(level, cell);
    --rows_[level].listed;
    rows_[level].state[cell] = state;
}

int Chain::host_level(int level, CellIndex cell) const {
    for (; level < shape_.levels; cell = shape_.parent(level, cell), ++level) {
        if (is_host(level, cell)) {
            return level;
        }
    }
    return -1;
}

// --- guaranteed work

std::int64_t Chain::bind_root(int level, int need) {
    const auto spare = surplus();
    for (int health = level + 1; health > need; --health) {
        for (int source = level; source < shape_.levels; ++source) {
            if (source > level && spare[source] < 1) {
                break;
            }
            const Order& order = rows_[source].by_health;
            if (order.present >> health == 0) {
                continue;
            }
            const int cls = health + std::countr_zero(order.present >> health);
            auto cell = static_cast<CellIndex>(order.classes[cls].first() % shape_.size[source]);
            unlist(source, cell, State::split);
            while (source > level) {
                const CellIndex begin = shape_.first_child(source, cell);
                --source;
                const Row& row = rows_[source];
                const CellIndex end = begin + shape_.fanout[source];
                CellIndex best = end;
                for (CellIndex child = begin; child < end; ++child) {
                    if (row.healthy[child] >= health &&
                        (best == end || std::tie(row.healthy[child], row.load[child]) <
                                            std::tie(row.healthy[best], row.load[best]))) {
                        best = child;
                    }
                }
                for (CellIndex child = begin; child < end; ++child) {
                    if (child != best) {
                        list(source, child);
                    }
                }
                rows_[source].state[best] = State::split;
                cell = best;
            }
            become_root(level, cell);
            return cell;
        }
    }
    return -1;
}

bool Chain::bind_root_at(int level, CellIndex cell) {
    int source = host_level(level, cell);
    if (source < 0 || rows_[source].state[shape_.ancestor(level, cell, source)] != State::listed) {
        return false;
    }
    CellIndex kept = shape_.ancestor(level, cell, source);
    unlist(source, kept, State::split);
    while (source > level) {
        const CellIndex begin = shape_.first_child(source, kept);
        --source;
        kept = shape_.ancestor(level, cell, source);
        for (CellIndex child = begin; child < begin + shape_.fanout[source]; ++child) {
            if (child != kept) {
                list(source, child);
            }
        }
        rows_[source].state[kept] = State::split;
    }
    become_root(level, cell);
    return true;
}

void Chain::become_root(int level, CellIndex cell) {
    rows_[level].state[cell] = State::root;
    enter(level, cell);
    --rows_[level].owed;
}

void Chain::unbind_root(int level, CellIndex cell) {
    leave(level, cell);
    ++rows_[level].owed;
    for (; level < shape_.top(); ++level) {
        const CellIndex parent = shape_.parent(level, cell);
        const CellIndex begin = shape_.first_child(level + 1, parent);
        const CellIndex end = begin + shape_.fanout[level];
        const std::vector<State>& state = rows_[level].state;
        bool complete = true;
        for (CellIndex child = begin; child < end && complete; ++child) {
            complete = child == cell || state[child] == State::listed;
        }
        if (!complete) {
            break;
        }
        for (CellIndex child = begin; child < end; ++child) {
            if (child != cell) {
                unlist(level, child, State::inside);
            }
        }
        rows_[level].state[cell] = State::inside;
        cell = parent;
    }
    list(level, cell);
}

std::int64_t Chain::bind_child(int level, CellIndex parent, int need) {
    Row& row = rows_[level - 1];
    const CellIndex begin = shape_.first_child(level, parent);
    const CellIndex end = begin + shape_.fanout[level - 1];
    CellIndex best = end;
    for (CellIndex child = begin; child < end; ++child) {
        if (row.state[child] == State::inside && row.healthy[child] > need &&
            (best == end || row.healthy[child] > row.healthy[best] ||
             (row.healthy[child] == row.healthy[best] && row.load[child] < row.load[best]))) {
            best = child;
        }
    }
    if (best == end) {
        return -1;
    }
    row.state[best] = State::bound;
    return best;
}

bool Chain::bind_child_at(int level, CellIndex cell) {
    if (level == shape_.top() || rows_[level].state[cell] != State::inside) {
        return false;
    }
    const State parent = rows_[level + 1].state[shape_.parent(level, cell)];
    if (parent != State::root && parent != State::bound) {
        return false;
    }
    rows_[level].state[cell] = State::bound;
    return true;
}

// --- occupation

Chain::Largest Chain::combined(int level, CellIndex cell) const {
    const Row& row = rows_[level];
    Largest result{row.healthy[cell], row.healthy[cell]};
    if (level > 0) {
        const CellIndex begin = shape_.first_child(level, cell);
        const CellIndex end = begin + shape_.fanout[level - 1];
        auto join = [&](const std::vector<std::uint8_t>& largest) {
            const auto [least, most] =
                std::minmax_element(largest.begin() + begin, largest.begin() + end);
            return static_cast<std::uint8_t>(*least == level ? level + 1 : *most);
        };
        result = {join(rows_[level - 1].healthy), join(rows_[level - 1].idle)};
    }
    if (row.user[cell] != 0) {
        result.idle = 0;
    }
    return result;
}

// Answers whether it changed anything.
bool Chain::combine(int level, CellIndex cell) {
    Row& row = rows_[level];
    const Largest before{row.healthy[cell], row.idle[cell]};
    const Largest after = combined(level, cell);
    row.healthy[cell] = after.healthy;
    row.idle[cell] = after.idle;
    return before != after;
}

// `load` is added to the cell and everything above it, modulo 2^32.
void Chain::set_user(int level, CellIndex cell, std::int32_t user, CellIndex load) {
    const int host = host_level(level, cell);
    if (host >= 0) {
        leave(host, shape_.ancestor(level, cell, host));
    }
    rows_[level].user[cell] = user;
    bool changed = combine(level, cell);
    rows_[level].load[cell] += load;
    CellIndex above = cell;
    for (int l = level; l < shape_.top() && (changed || load != 0);) {
        above = shape_.parent(l, above);
        ++l;
        rows_[l].load[above] += load;
        changed = changed && combine(l, above);
    }
    if (host >= 0) {
        enter(host, shape_.ancestor(level, cell, host));
    }
}

void Chain::occupy(int level, CellIndex cell, std::int32_t user, bool opportunistic) {
    set_user(level, cell, user, opportunistic ? shape_.leaves[level] : 0);
}

void Chain::vacate(int level, CellIndex cell, bool opportunistic) {
    set_user(level, cell, 0, opportunistic ? 0 - shape_.leaves[level] : 0);
}

void Chain::append_below(int level, CellIndex cell, std::vector<std::int32_t>& users) const {
    const Row& row = rows_[level];
    if (row.load[cell] == 0) {
        return;
    }
    if (row.user[cell] != 0) {
        users.push_back(row.user[cell]);
        return;
    }
    const CellIndex begin = shape_.first_child(level, cell);
    for (CellIndex child = begin; child < begin + shape_.fanout[level - 1]; ++child) {
        append_below(level - 1, child, users);
    }
}

void Chain::append_overlapping(int level, CellIndex cell, std::vector<std::int32_t>& users) const {
    append_below(level, cell, users);
    while (level < shape_.top()) {
        cell = shape_.parent(level, cell);
        ++level;
        if (rows_[level].user[cell] != 0) {
            users.push_back(rows_[level].user[cell]);
        }
    }
}

bool Chain::is_idle(int level, CellIndex cell) const {
    if (rows_[level].idle[cell] != level + 1) {
        return false;
    }
    while (level < shape_.top()) {
        cell = shape_.parent(level, cell);
        ++level;
        if (rows_[level].user[cell] != 0) {
            return false;
        }
    }
    return true;
}

std::int64_t Chain::find_idle(int level) const {
    for (const bool listed : {true, false}) {
        for (int source = shape_.levels; source-- > level;) {
            const Order& order = listed ? rows_[source].listed_hosts : rows_[source].root_hosts;
            std::uint32_t able = order.present & ~((2u << level) - 1);
            if (able == 0) {
                continue;
            }
            std::uint64_t last = 0;
            for (; able != 0; able &= able - 1) {
                last = std::max(last, order.classes[std::countr_zero(able)].last());
            }
            auto cell = static_cast<CellIndex>(last % shape_.size[source]);
            while (source > level) {
                const CellIndex begin = shape_.first_child(source, cell);
                --source;
                const Row& row = rows_[source];
                const CellIndex end = begin + shape_.fanout[source];
                CellIndex best = end;
                for (CellIndex child = begin; child < end; ++child) {
                    const bool bound = row.state[child] == State::bound;
                    if (row.idle[child] > level &&
                        (best == end ||
                         std::make_tuple(!bound, row.load[child]) >=
                             std::make_tuple(row.state[best] != State::bound, row.load[best]))) {
                        best = child;
                    }
                }
                cell = best;
            }
            return cell;
        }
    }
    return -1;
}

// --- health

void Chain::set_health(CellIndex first_leaf, CellIndex end_leaf, bool healthy) {
    auto for_each_touched = [&](int level, auto visit) {
        const CellIndex last = (end_leaf - 1) / shape_.leaves[level];
        for (CellIndex cell = first_leaf / shape_.leaves[level]; cell <= last; ++cell) {
            visit(level, cell);
        }
    };
    for (int level = 0; level < shape_.levels; ++level) {
        for_each_touched(level, [&](int l, CellIndex cell) {
            if (is_host(l, cell)) {
                leave(l, cell);
            }
        });
    }
    for (CellIndex leaf = first_leaf; leaf < end_leaf; ++leaf) {
        std::uint8_t& flag = rows_[0].healthy[leaf];
        bad_leaves_ += flag;
        flag = healthy ? 1 : 0;
        bad_leaves_ -= flag;
    }
    for (int level = 0; level < shape_.levels; ++level) {
        for_each_touched(level, [&](int l, CellIndex cell) { combine(l, cell); });
    }
    for (int level = 0; level < shape_.levels; ++level) {
        for_each_touched(level, [&](int l, CellIndex cell) {
            if (is_host(l, cell)) {
                enter(l, cell);
            }
        });
    }
}

// --- audit

std::string Chain::audit_cell(int level, CellIndex cell) const {
    const Row& row = rows_[level];
    const State state = row.state[cell];
    const State parent =
        level == shape_.top() ? State::split : rows_[level + 1].state[shape_.parent(level, cell)];
    const bool below_bound = parent == State::root || parent == State::bound;
    const bool fits = state == State::bound    ? below_bound
                      : state == State::inside ? parent != State::split
                                               : parent == State::split;
    if (!fits) {
        return "its state does not go with its parent's";
    }
    CellIndex load = 0;
    if (level > 0) {
        const CellIndex begin = shape_.first_child(level, cell);
        const Row& below = rows_[level - 1];
        bool all_listed = true;
        for (CellIndex child = begin; child < begin + shape_.fanout[level - 1]; ++child) {
            load += below.load[child];
            all_listed = all_listed && below.state[child] == State::listed;
        }
        if (state == State::split && all_listed) {
            return "it is not merged";
        }
    }
    // The chain does not know which users are opportunistic: one adds all of its leaves, or none.
    const bool own_load = row.user[cell] != 0 && load == 0;
    if (row.load[cell] != load && !(own_load && row.load[cell] == shape_.leaves[level])) {
        return "its load is wrong";
    }
    if (combined(level, cell) != Largest{row.healthy[cell], row.idle[cell]}) {
        return "its largest healthy or idle cell is wrong";
    }
    return {};
}

// Whether the orders hold every host under its key, and nothing else.
bool Chain::orders_hold(int level) const {
    const Row& row = rows_[level];
    std::uint64_t missing = 0;
    auto expect = [&](const Order& order, int cls, std::uint64_t k) {
        missing += cls != 0 && !order.classes[cls].contains(k);
        return cls != 0;
    };
    std::uint64_t expected = 0;
    CellIndex listed = 0;
    for (CellIndex cell = 0; cell < shape_.size[level]; ++cell) {
        const std::uint64_t k = key(level, cell);
        if (row.state[cell] == State::listed) {
            ++listed;
            expected += expect(row.by_health, row.healthy[cell], k);
            expected += expect(row.listed_hosts, row.idle[cell], k);
        } else if (row.state[cell] == State::root) {
            expected += expect(row.root_hosts, row.idle[cell], k);
        }
    }
    std::uint64_t members = 0;
    for (const Order* order : {&row.by_health, &row.listed_hosts, &row.root_hosts}) {
        for (int cls = 1; cls <= level + 1; ++cls) {
            const IndexSet& set = order->classes[cls];
            const std::uint64_t before = members;
            set.for_each([&](std::uint64_t) { ++members; });
            if ((members != before) != (order->present >> cls & 1) || !set.summaries_hold()) {
                return false;
            }
        }
    }
    return missing == 0 && members == expected && listed == row.listed;
}

std::string Chain::audit() const {
    CellIndex bad = 0;
    for (const std::uint8_t healthy : rows_[0].healthy) {
        bad += healthy == 0;
    }
    if (bad != bad_leaves_) {
        return "the count of bad leaves is wrong";
    }
    std::vector<bool> used_above;  // per cell of the level above: it or a cell around it is used
    for (int level = shape_.levels; level-- > 0;) {
        const std::string where = " of level " + std::to_string(level + 1);
        std::vector<bool> used(shape_.size[level]);
        for (CellIndex cell = 0; cell < shape_.size[level]; ++cell) {
            const bool around = level < shape_.top() && used_above[shape_.parent(level, cell)];
            if (around && rows_[level].user[cell] != 0) {
                return "cell " + std::to_string(cell) + where + ": a cell around it is used too";
            }
            used[cell] = around || rows_[level].user[cell] != 0;
            const std::string fault = audit_cell(level, cell);
            if (!fault.empty()) {
                return "cell " + std::to_string(cell) + where + ": " + fault;
            }
        }
        if (!orders_hold(level)) {
            return "the orders" + where + " do not match the hosts";
        }
        if (surplus()[level] < 0) {
            return "safety is broken: S" + where + " is " + std::to_string(surplus()[level]);
        }
        used_above = std::move(used);
    }
    return {};
}

std::uint64_t Chain::occupied_cells() const {
    std::uint64_t total = 0;
    for (const Row& row : rows_) {
        total += row.user.size() - std::count(row.user.begin(), row.user.end(), 0);
    }
    return total;
}

std::uint64_t Chain::bytes() const {
    std::uint64_t total = sizeof(*this);
    for (const Row& row : rows_) {
        total += sizeof(row) + row.state.size() * (3 + sizeof(CellIndex) + sizeof(std::int32_t));
        for (const Order* order : {&row.by_health, &row.listed_hosts, &row.root_hosts}) {
            for (const IndexSet& set : order->classes) {
                total += set.bytes();
            }
        }
    }
    return total;
}

}  // namespace hivecore::cells
