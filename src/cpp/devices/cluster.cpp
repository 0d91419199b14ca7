#include "devices/cluster.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "devices/koordinator/state.hpp"

namespace hivecore::devices {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min();

// Calls `visit` with a chooser of the width that the shape's masks have.
template <class Visit>
auto with_chooser(const Request& request, const Fitted& fitted, const Shape& shape,
                  const std::uint64_t* words, Policy policy, const Visible* visible, Visit visit) {
    if (shape.mask_words() == 1) {
        return visit(Chooser<1>(request, fitted, shape, words, policy, visible));
    }
    return visit(
        Chooser<kMostDevices / 64>(request, fitted, shape, words, policy, visible));
}

int find_function(const DeviceColumn& column, int device, std::int32_t name) {
    for (int f = column.first_function[device]; f < column.first_function[device + 1]; ++f) {
        if (column.function_names[f] == name) {
            return f;
        }
    }
    return -1;
}

bool has_bit(const std::uint64_t* words, int at, int bit) {
    return words[at + bit / 64] >> (bit % 64) & 1;
}

void set_bit(std::vector<std::uint64_t>& words, int at, int bit) {
    words[at + bit / 64] |= std::uint64_t{1} << (bit % 64);
}

bool has_gone(const Shape& shape, const std::vector<Charge>& charges) {
    return std::ranges::any_of(
        charges, [&](const Charge& charge) { return shape.find(charge.type, charge.minor) < 0; });
}

// How much of its primary amount the healthy devices have, and how much is free.
void add_up(const Shape& shape, std::vector<std::uint64_t>& words) {
    for (int type = 0; type < kTypes; ++type) {
        const auto& column = shape.of(static_cast<Type>(type));
        std::int64_t total = 0, free = 0;
        for (int i = 0; i < column.count; ++i) {
            if (column.primary[i] >= 0 && has_bit(words.data(), column.healthy, i)) {
                const auto at = column.primary[i] * column.count + i;
                total += column.total[at];
                const auto used = static_cast<std::int64_t>(words[column.used + at]);
                free += std::max<std::int64_t>(column.total[at] - used, 0);
            }
        }
        if (column.count > 0) {
            words[column.sums] = static_cast<std::uint64_t>(total);
            words[column.sums + 1] = static_cast<std::uint64_t>(free);
        }
    }
    if (shape.is_raw()) {
        koordinator::derive(shape, words);
    }
}

}  // namespace

std::uint64_t Query::bytes() const {
    std::uint64_t sum = sizeof *this + 8 * fitted.capacity();
    for (const auto& ranking : rankings) {
        sum += sizeof(Answer) * ranking.answers.capacity() + 8 * ranking.tree.capacity();
    }
    for (const auto& one : fitted) {
        for (std::size_t i = 0; one && i < one->needs.size(); ++i) {
            sum += sizeof(FittedNeed) + 8 * one->needs[i].charge.capacity();
        }
    }
    for (const auto& one : asked) {
        sum += sizeof one + (one ? one->bytes() : 0);
    }
    return sum;
}

// --- nodes

std::int32_t DeviceCluster::add_shape(Shape shape) {
    return states_.add_shape(std::make_shared<const Shape>(std::move(shape)));
}

void DeviceCluster::set_node(std::int32_t node, std::int32_t shape, const Visible& healthy) {
    if (node >= nodes()) {
        nodes_.resize(node + 1);
    }
    auto& changed = nodes_[node];
    if (shape < 0) {
        if (changed.state >= 0) {
            states_.forget(changed.state);
        }
        changed.shape = changed.state = -1;
        note(node);
        return;
    }
    const auto before = changed.state;
    changed.shape = shape;
    changed.state = -1;
    move_to(node, built(node, {}, healthy));
    if (before >= 0) {
        states_.forget(before);
    }
}

Visible DeviceCluster::healthy(std::int32_t node) const {
    Visible healthy;
    if (nodes_[node].state >= 0) {
        const auto& shape = states_.shape(nodes_[node].shape);
        const auto* words = states_.words(nodes_[node].state);
        for (int type = 0; type < kTypes; ++type) {
            const auto& column = shape.of(static_cast<Type>(type));
            for (int w = 0; column.count > 0 && w < shape.mask_words(); ++w) {
                healthy[type].words[w] = words[column.healthy + w];
            }
        }
    }
    return healthy;
}

std::int64_t DeviceCluster::used(std::int32_t node, Type type, int device, int amount) const {
    const auto& column = states_.shape(nodes_[node].shape).of(type);
    const int c = column.column_of[amount];
    if (c < 0) {
        return 0;
    }
    const auto* words = states_.words(nodes_[node].state);
    return static_cast<std::int64_t>(words[column.used + c * column.count + device]);
}

// Adds what an owner has to a state; the sums are not brought up to date.
void DeviceCluster::apply(const Shape& shape, std::vector<std::uint64_t>& words,
                          const std::vector<Charge>& charges) const {
    for (const auto& charge : charges) {
        const int device = shape.find(charge.type, charge.minor);
        if (device < 0) {
            continue;
        }
        const auto& column = shape.of(charge.type);
        for (int amount = 0; amount < kAmounts; ++amount) {
            if (const int c = column.column_of[amount]; c >= 0) {
                words[column.used + c * column.count + device] +=
                    static_cast<std::uint64_t>(charge.amounts[amount]);
            }
        }
        set_bit(words, column.in_use, device);
        if (shape.is_raw()) {
            koordinator::note_names(shape, words, charge.type, device, charge.amounts);
        }
        if (charge.exclusive != Exclusive::kNo) {
            set_bit(words, column.closed, device);
        }
        if (charge.exclusive == Exclusive::kSwitch) {
            column.on_place[column.place[device]].each(
                [&](int other) { set_bit(words, column.closed, other); });
        }
        if (const int f = find_function(column, device, charge.function); f >= 0) {
            set_bit(words, column.functions, f);
        }
    }
}

// What owners on the node have of devices that are not there.
std::vector<std::pair<Type, std::int32_t>> DeviceCluster::gone(
    std::int32_t node, std::span<const std::int32_t> without) const {
    const auto& shape = states_.shape(nodes_[node].shape);
    std::vector<std::pair<Type, std::int32_t>> found;
    for (const auto owner : nodes_[node].owners) {
        if (std::ranges::find(without, owner) == without.end()) {
            for (const auto& charge : owners_[owner].charges) {
                if (shape.find(charge.type, charge.minor) < 0) {
                    found.emplace_back(charge.type, charge.minor);
                }
            }
        }
    }
    return found;
}

std::vector<std::uint64_t> DeviceCluster::built(std::int32_t node,
                                                std::span<const std::int32_t> without,
                                                const Visible& healthy) const {
    const auto& shape = states_.shape(nodes_[node].shape);
    std::vector<std::uint64_t> words(shape.words());
    for (int type = 0; type < kTypes; ++type) {
        const auto& column = shape.of(static_cast<Type>(type));
        for (int i = 0; i < column.count; ++i) {
            if (healthy[type].has(i)) {
                set_bit(words, column.healthy, i);
            }
        }
    }
    for (const auto owner : nodes_[node].owners) {
        if (std::ranges::find(without, owner) == without.end()) {
            apply(shape, words, owners_[owner].charges);
        }
    }
    if (shape.is_raw()) {
        koordinator::note_gone(shape, words, gone(node, without));
    }
    add_up(shape, words);
    return words;
}

void DeviceCluster::move_to(std::int32_t node, const std::vector<std::uint64_t>& words) {
    const auto before = nodes_[node].state;
    nodes_[node].state = states_.intern(nodes_[node].shape, words.data());
    if (before >= 0) {
        states_.forget(before);
    }
    note(node);
}

void DeviceCluster::note(std::int32_t node) {
    if (log_.size() > 4 * nodes_.size() + 1024) {
        const auto half = log_.size() / 2;
        log_.erase(log_.begin(), log_.begin() + static_cast<std::ptrdiff_t>(half));
        log_begins_ += half;
    }
    log_.push_back(node);
}

// --- owners

bool DeviceCluster::is_free(std::int32_t node, std::span<const Charge> charges, bool idle) const {
    if (nodes_[node].state < 0) {
        return false;
    }
    const auto& shape = states_.shape(nodes_[node].shape);
    const auto* words = states_.words(nodes_[node].state);
    for (const auto& charge : charges) {
        const int device = shape.find(charge.type, charge.minor);
        const auto& column = shape.of(charge.type);
        if (device < 0 || !has_bit(words, column.healthy, device) ||
            has_bit(words, column.closed, device)) {
            return false;
        }
        bool whole = true;
        for (int amount = 0; amount < kAmounts; ++amount) {
            const int c = column.column_of[amount];
            const auto at = c * column.count + device;
            const auto total = c < 0 ? 0 : column.total[at];
            const auto used = c < 0 ? 0 : static_cast<std::int64_t>(words[column.used + at]);
            if (charge.amounts[amount] > 0 && charge.amounts[amount] > total - used) {
                return false;
            }
            whole &= charge.amounts[amount] == total;
        }
        const bool alone = (idle && charge.type == kGpu) || whole || charge.exclusive != Exclusive::kNo;
        if (alone && has_bit(words, column.in_use, device)) {
            return false;
        }
        if (charge.exclusive == Exclusive::kSwitch) {
            bool used = false;
            column.on_place[column.place[device]].each(
                [&](int other) { used |= has_bit(words, column.in_use, other); });
            if (used) {
                return false;
            }
        }
        if (charge.function >= 0) {
            const int f = find_function(column, device, charge.function);
            if (f < 0 || has_bit(words, column.functions, f)) {
                return false;
            }
        }
    }
    return true;
}

std::int32_t DeviceCluster::charge(std::int32_t node, std::vector<Charge> charges) {
    if (free_owners_.empty()) {
        free_owners_.push_back(static_cast<std::int32_t>(owners_.size()));
        owners_.emplace_back();
    }
    const auto owner = free_owners_.back();
    auto& at = nodes_[node];
    at.owners.push_back(owner);
    free_owners_.pop_back();
    owners_[owner] = {node, static_cast<std::int32_t>(at.owners.size()) - 1, std::move(charges)};
    if (at.state >= 0) {
        const auto& shape = states_.shape(at.shape);
        if (shape.is_raw() && has_gone(shape, owners_[owner].charges)) {
            move_to(node, built(node, {}, healthy(node)));
            return owner;
        }
        const auto* now = states_.words(at.state);
        std::vector<std::uint64_t> words(now, now + shape.words());
        apply(shape, words, owners_[owner].charges);
        add_up(shape, words);
        move_to(node, words);
    }
    return owner;
}

void DeviceCluster::refund(std::int32_t owner) {
    const auto node = owners_[owner].node;
    auto& list = nodes_[node].owners;
    const auto place = owners_[owner].place;
    list[place] = list.back();
    owners_[list[place]].place = place;
    list.pop_back();
    owners_[owner] = {};
    free_owners_.push_back(owner);
    if (nodes_[node].state >= 0) {
        move_to(node, built(node, {}, healthy(node)));
    }
}

// --- decisions

const Fitted& DeviceCluster::fitted(Query& query, std::int32_t shape) const {
    if (query.fitted.size() <= static_cast<std::size_t>(shape)) {
        query.fitted.resize(states_.shapes());
    }
    auto& found = query.fitted[shape];
    if (!found) {
        found = std::make_unique<Fitted>(query.request, states_.shape(shape));
    }
    return *found;
}

const Answer& DeviceCluster::answer_for(Query& query, Policy policy, StateId state) {
    auto& answers = query.rankings[static_cast<int>(policy)].answers;
    if (answers.size() <= static_cast<std::size_t>(state)) {
        answers.resize(states_.size());
    }
    if (answers[state].born == states_.born(state)) {
        return answers[state];
    }
    if (is_koordinator_) {
        return answers[state] = answer_of_koordinator(query, policy, state);
    }
    const auto number = states_.shape_of(state);
    Answer answer;
    answer.born = states_.born(state);
    with_chooser(query.request, fitted(query, number), states_.shape(number), states_.words(state),
                 policy, nullptr, [&](auto chooser) {
                     const auto verdict = chooser.verdict();
                     answer.code = verdict.code;
                     answer.type = verdict.type;
                     if (verdict.code == Code::kFits) {
                         answer.score = static_cast<std::int32_t>(chooser.score());
                         answer.preferred = static_cast<std::int8_t>(chooser.preferred());
                     }
                 });
    if (answer.code != Code::kFits) {
        const auto empty = states_.emptied(state);
        answer.resolvable =
            empty != state && answer_for(query, policy, empty).code == Code::kFits;
    }
    auto& kept = query.rankings[static_cast<int>(policy)].answers;
    if (kept.size() <= static_cast<std::size_t>(state)) {
        kept.resize(states_.size());
    }
    return kept[state] = answer;
}

const Answer& DeviceCluster::answer(Query& query, Policy policy, std::int32_t node) {
    static const Answer kNothing{1, 0, Code::kNoDevices, kGpu, false, 0};
    if (nodes_[node].state < 0) {
        return kNothing;
    }
    return answer_for(query, policy, nodes_[node].state);
}

std::int64_t DeviceCluster::key(Query& query, Policy policy, std::int32_t node) {
    const auto& found = answer(query, policy, node);
    if (found.code != Code::kFits) {
        return kNever;
    }
    return (static_cast<std::int64_t>(found.preferred) << 32) + found.score;
}

void DeviceCluster::bring_up_to_date(Query& query, Policy policy) {
    auto& ranking = query.rankings[static_cast<int>(policy)];
    const auto now = log_begins_ + log_.size();
    const auto leaves = std::bit_ceil(nodes_.size());
    const bool missed = ranking.position < log_begins_ || now - ranking.position > nodes_.size() / 4;
    if (!ranking.is_built || ranking.leaves != leaves || (missed && now != ranking.position)) {
        ranking.leaves = leaves;
        ranking.tree.assign(2 * leaves, kNever);
        for (std::int32_t node = 0; node < nodes(); ++node) {
            ranking.tree[leaves + node] = key(query, policy, node);
        }
        for (auto at = leaves - 1; at > 0; --at) {
            ranking.tree[at] = std::max(ranking.tree[2 * at], ranking.tree[2 * at + 1]);
        }
        ranking.is_built = true;
    } else {
        for (auto at = ranking.position; at < now; ++at) {
            const auto node = log_[at - log_begins_];
            auto i = leaves + node;
            ranking.tree[i] = key(query, policy, node);
            for (i /= 2; i > 0; i /= 2) {
                const auto best = std::max(ranking.tree[2 * i], ranking.tree[2 * i + 1]);
                if (ranking.tree[i] == best) {
                    break;
                }
                ranking.tree[i] = best;
            }
        }
    }
    ranking.position = now;
}

std::int32_t DeviceCluster::best(Query& query, Policy policy) {
    if (nodes_.empty()) {
        return -1;
    }
    bring_up_to_date(query, policy);
    const auto& ranking = query.rankings[static_cast<int>(policy)];
    if (ranking.tree[1] == kNever) {
        return -1;
    }
    std::size_t i = 1;
    while (i < ranking.leaves) {
        i = ranking.tree[2 * i] == ranking.tree[i] ? 2 * i : 2 * i + 1;
    }
    return static_cast<std::int32_t>(i - ranking.leaves);
}

std::int32_t DeviceCluster::best_of(Query& query, Policy policy,
                                    std::span<const std::int64_t> nodes) {
    std::int32_t best = -1;
    auto most = kNever;
    for (const auto one : nodes) {
        const auto node = static_cast<std::int32_t>(one);
        const auto found = key(query, policy, node);
        if (found > most || (found == most && found != kNever && node < best)) {
            most = found;
            best = node;
        }
    }
    return best;
}

std::vector<Charge> DeviceCluster::charges_for(const Query& query, const Fitted& fitted,
                                               const Shape& shape, const std::uint64_t* words,
                                               const Chosen& chosen) const {
    std::vector<Charge> charges;
    for (std::size_t i = 0; i < query.request.needs.size(); ++i) {
        const auto& need = query.request.needs[i];
        const auto& column = shape.of(need.type);
        chosen.devices[need.type].each([&](int device) {
            Charge charge{need.type, need.exclusive, column.minors[device], -1, {}};
            for (int amount = 0; amount < kAmounts; ++amount) {
                if (const int c = column.column_of[amount]; c >= 0) {
                    charge.amounts[amount] = fitted.needs[i].charge[c * column.count + device];
                }
            }
            for (int f = column.first_function[device];
                 need.functions && charge.function < 0 && f < column.first_function[device + 1];
                 ++f) {
                if (has_bit(fitted.needs[i].functions.data(), 0, f) &&
                    !has_bit(words, column.functions, f)) {
                    charge.function = column.function_names[f];
                }
            }
            charges.push_back(charge);
        });
    }
    return charges;
}

std::vector<Charge> DeviceCluster::choose(Query& query, Policy policy, std::int32_t node,
                                          bool& idle) {
    if (is_koordinator_) {
        return charges_of_koordinator(query, policy, nodes_[node].shape,
                                      states_.words(nodes_[node].state), nullptr, idle);
    }
    const auto& shape = states_.shape(nodes_[node].shape);
    const auto& fit = fitted(query, nodes_[node].shape);
    const auto* words = states_.words(nodes_[node].state);
    const auto chosen =
        with_chooser(query.request, fit, shape, words, policy, nullptr, [](auto chooser) {
            chooser.verdict();
            return chooser.choose();
        });
    idle = fit.must_be_row;
    return charges_for(query, fit, shape, words, chosen);
}

Verdict DeviceCluster::examine(Query& query, Policy policy, std::int32_t node,
                               const Visible* visible, std::span<const std::int32_t> without,
                               std::vector<Charge>* charges, bool* idle) {
    if (nodes_[node].state < 0) {
        return {Code::kNoDevices, kGpu};
    }
    const auto words = built(node, without, healthy(node));
    if (is_koordinator_) {
        return examine_as_koordinator(query, policy, nodes_[node].shape, words.data(), visible,
                                      charges, idle);
    }
    const auto& shape = states_.shape(nodes_[node].shape);
    const auto& fit = fitted(query, nodes_[node].shape);
    return with_chooser(query.request, fit, shape, words.data(), policy, visible,
                        [&](auto chooser) {
                            const auto verdict = chooser.verdict();
                            if (verdict.code == Code::kFits && charges != nullptr) {
                                *charges = charges_for(query, fit, shape, words.data(),
                                                       chooser.choose());
                                *idle = fit.must_be_row;
                            }
                            return verdict;
                        });
}

// --- audit

std::string DeviceCluster::audit() const {
    std::vector<std::int32_t> references(states_.size());
    for (std::int32_t node = 0; node < nodes(); ++node) {
        const auto& one = nodes_[node];
        for (std::size_t i = 0; i < one.owners.size(); ++i) {
            const auto& owner = owners_[one.owners[i]];
            if (owner.node != node || owner.place != static_cast<std::int32_t>(i)) {
                return "an owner of node " + std::to_string(node) + " is not on it";
            }
        }
        if (one.state < 0) {
            continue;
        }
        ++references[one.state];
        const auto words = built(node, {}, healthy(node));
        if (!std::equal(words.begin(), words.end(), states_.words(one.state))) {
            return "the state of node " + std::to_string(node) + " is not what its owners have";
        }
    }
    for (std::size_t id = 0; id < references.size(); ++id) {
        if (states_.references(static_cast<StateId>(id)) < references[id]) {
            return "state " + std::to_string(id) + " has too few references";
        }
    }
    return {};
}

std::uint64_t DeviceCluster::bytes() const {
    std::uint64_t sum = sizeof *this + states_.bytes() + sizeof(Node) * nodes_.capacity() +
                        sizeof(Owner) * owners_.capacity() +
                        4 * (free_owners_.capacity() + log_.capacity());
    for (const auto& node : nodes_) {
        sum += 4 * node.owners.capacity();
    }
    for (const auto& owner : owners_) {
        sum += sizeof(Charge) * owner.charges.capacity();
    }
    return sum;
}

}  // namespace hivecore::devices
