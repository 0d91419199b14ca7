#include "devices/cluster.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

namespace hivecore::devices {
namespace {

constexpr std::int64_t kMostWork = std::int64_t{1} << 57;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min();

// Calls `visit` with a chooser of the width that the shape's masks have.
template <class Visit>
auto with_chooser(const Request& request, const Fitted& fitted, const Shape& shape,
                  const std::uint64_t* words, Policy policy, const Circumstances& circumstances,
                  const Visible* visible, Visit visit) {
    if (shape.mask_words() == 1) {
        Chooser<1> chooser(request, fitted, shape, words, policy, circumstances, visible);
        return visit(chooser);
    }
    Chooser<kMostDevices / 64> chooser(request, fitted, shape, words, policy, circumstances,
                                       visible);
    return visit(chooser);
}

// The sum of an amount over all devices of a type, healthy or not.
std::int64_t total_of(const DeviceColumn& column, bool primary) {
    std::int64_t sum = 0;
    for (int i = 0; i < column.count; ++i) {
        const int c = primary ? column.primary[i] : column.column_of[0];
        sum += c < 0 ? 0 : column.total[c * column.count + i];
    }
    return sum;
}

// All devices of a shape.
Visible all_of(const Shape& shape) {
    Visible all;
    for (int type = 0; type < kTypes; ++type) {
        for (int i = 0; i < shape.of(static_cast<Type>(type)).count; ++i) {
            all[type].add(i);
        }
    }
    return all;
}

// Whether the policy puts a cost on what it would choose on a node.
bool is_sharing(Policy policy) {
    return policy != Policy::kBinPack && policy != Policy::kSpread && policy != Policy::kRandom;
}

}  // namespace

std::uint64_t Query::bytes() const {
    std::uint64_t sum =
        sizeof *this + 8 * fitted.capacity() + sizeof(Charge) * chosen.charges.capacity();
    for (const auto& ranking : rankings) {
        sum += sizeof(Answer) * ranking.answers.capacity() + 8 * ranking.tree.capacity() +
               sizeof(Capacity) * ranking.capacities.capacity();
    }
    for (const auto& entry : fitted) {
        for (std::size_t i = 0; entry && i < entry->needs.size(); ++i) {
            sum += sizeof(FittedNeed) + 8 * entry->needs[i].charge.capacity();
        }
    }
    return sum;
}

// --- nodes

std::int32_t DeviceCluster::add_shape(Shape shape) {
    return states_.add_shape(std::make_shared<const Shape>(std::move(shape)));
}

std::vector<std::int32_t> DeviceCluster::drop_unused_shapes() {
    std::vector<std::int32_t> dropped;
    if (undo_.is_on()) {
        return dropped;
    }
    of_shape_.resize(std::max<std::size_t>(of_shape_.size(), states_.shapes()));
    for (std::int32_t number = 0; number < states_.shapes(); ++number) {
        if (states_.has_shape(number) && of_shape_[number].nodes == 0) {
            states_.drop_shape(number);
            if (static_cast<std::size_t>(number) < mix_tables_.size()) {
                mix_tables_[number].reset();
            }
            dropped.push_back(number);
        }
    }
    return dropped;
}

void DeviceCluster::set_node(std::int32_t node, std::int32_t shape, const Visible& healthy) {
    const auto before = nodes();
    if (node >= before) {
        nodes_.resize(node + 1);
    }
    auto& changed = nodes_[node];
    if (undo_.is_on()) {
        undo_.add(Reshaped{node, changed.shape, before});
    }
    count_node(shape, 1);
    count_node(changed.shape, -1);
    drop_heavy_mix();
    changed.shape = shape;
    if (shape < 0) {
        move_to(node, StateId{-1});
    } else {
        move_to(node, built(node, {}, healthy));
    }
}

// Costs measure nodes against the largest one: it may be another with one more or one less of a
// shape. All shapes are looked at only where the last of the largest nodes has gone.
void DeviceCluster::count_node(std::int32_t shape, int change) {
    if (shape < 0) {
        return;
    }
    of_shape_.resize(std::max<std::size_t>(of_shape_.size(), states_.shapes()));
    auto& counted = of_shape_[shape];
    if (counted.nodes == 0) {
        counted.cpu = total_of(states_.shape(shape).of(kHost), false);
        counted.memory = total_of(states_.shape(shape).of(kGpu), true);
    }
    counted.nodes += change;
    auto cpu = std::max(most_cpu_, counted.cpu);
    auto memory = std::max(most_memory_, counted.memory);
    if (counted.nodes == 0 && (counted.cpu == cpu || counted.memory == memory)) {
        cpu = memory = 0;  // perhaps the last one of that size
        for (const auto& counts : of_shape_) {
            cpu = std::max(cpu, counts.nodes > 0 ? counts.cpu : 0);
            memory = std::max(memory, counts.nodes > 0 ? counts.memory : 0);
        }
    }
    if (cpu != most_cpu_ || memory != most_memory_) {
        most_cpu_ = cpu;
        most_memory_ = memory;
        ++scale_version_;
    }
}

void DeviceCluster::drop_heavy_mix() {
    if (mix_weight_ > kMostWork / std::max<std::int64_t>(most_memory_, 1)) {
        set_mix({});  // until another one is set, which has to be lighter
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
    add_up(shape, words);
    return words;
}

void DeviceCluster::move_to(std::int32_t node, StateId now) {
    auto& state = nodes_[node].state;
    if (undo_.is_on()) {
        undo_.add(Moved{node, state});
    } else if (state >= 0) {
        states_.forget(state);
    }
    state = now;
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
    const auto& at = nodes_[node];
    return at.state >= 0 &&
           devices::is_free(states_.shape(at.shape), states_.words(at.state), charges, idle);
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
    if (undo_.is_on()) {
        undo_.add(Charged{owner});
    }
    if (at.state >= 0) {
        const auto& shape = states_.shape(at.shape);
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
    if (undo_.is_on()) {
        undo_.add(Refunded{owner, std::move(owners_[owner])});
    }
    owners_[owner] = {};
    free_owners_.push_back(owner);
    if (nodes_[node].state >= 0) {
        move_to(node, built(node, {}, healthy(node)));
    }
}

void DeviceCluster::recharge(std::int32_t owner, std::vector<Charge> charges) {
    if (undo_.is_on()) {
        undo_.add(Recharged{owner, std::move(owners_[owner].charges)});
    }
    owners_[owner].charges = std::move(charges);
    const auto node = owners_[owner].node;
    if (nodes_[node].state >= 0) {
        move_to(node, built(node, {}, healthy(node)));
    }
}

// --- trials

void DeviceCluster::rewind() {
    while (undo_.has_more()) {
        auto last = undo_.take();
        std::visit([&](auto& step) { undo_step(step); }, last);
    }
    undo_.end();
    drop_heavy_mix();
}

void DeviceCluster::keep() {
    undo_.end();
    if (undo_.is_on()) {
        return;
    }
    for (const auto& step : undo_.steps()) {
        if (const auto* moved = std::get_if<Moved>(&step); moved != nullptr && moved->before >= 0) {
            states_.forget(moved->before);
        }
    }
    undo_.clear();
}

void DeviceCluster::undo_step(const Charged& step) {
    nodes_[owners_[step.owner].node].owners.pop_back();
    owners_[step.owner] = {};
    free_owners_.push_back(step.owner);
}

void DeviceCluster::undo_step(Refunded& step) {
    auto& list = nodes_[step.before.node].owners;
    const auto place = static_cast<std::size_t>(step.before.place);
    list.push_back(step.owner);
    std::swap(list[place], list.back());
    owners_[list.back()].place = static_cast<std::int32_t>(list.size()) - 1;
    owners_[step.owner] = std::move(step.before);
    free_owners_.pop_back();
}

void DeviceCluster::undo_step(Recharged& step) {
    owners_[step.owner].charges = std::move(step.before);
}

void DeviceCluster::undo_step(const Reshaped& step) {
    count_node(step.before, 1);
    count_node(nodes_[step.node].shape, -1);
    nodes_[step.node].shape = step.before;
    nodes_.resize(step.nodes);
}

void DeviceCluster::undo_step(const Moved& step) {
    auto& state = nodes_[step.node].state;
    if (state >= 0) {
        states_.forget(state);
    }
    state = step.before;
    note(step.node);
}

// --- what policies go by

bool DeviceCluster::set_mix(TaskMix mix) {
    std::int64_t weight = 0;
    for (const auto& task : mix) {
        weight += task.weight;
    }
    if (weight > kMostWork / std::max<std::int64_t>(most_memory_, 1)) {
        return false;
    }
    mix_ = std::move(mix);
    mix_weight_ = weight;
    mix_tables_.clear();
    ++mix_version_;
    return true;
}

const MixTable& DeviceCluster::mix_table(std::int32_t shape) {
    if (mix_tables_.size() <= static_cast<std::size_t>(shape)) {
        mix_tables_.resize(states_.shapes());
    }
    if (!mix_tables_[shape]) {
        mix_tables_[shape] = std::make_shared<const MixTable>(mix_, states_.shape(shape));
    }
    return *mix_tables_[shape];
}

std::int64_t DeviceCluster::fragmentation(std::int32_t node) {
    if (nodes_[node].state < 0) {
        return 0;
    }
    const auto number = nodes_[node].shape;
    const auto& shape = states_.shape(number);
    const Request nothing;
    const Fitted fitted(nothing, shape);
    return with_chooser(nothing, fitted, shape, states_.words(nodes_[node].state), Policy::kFgd,
                        circumstances(Policy::kFgd, number), nullptr,
                        [](auto& chooser) { return chooser.fragmentation(); });
}

Circumstances DeviceCluster::circumstances(Policy policy, std::int32_t shape) {
    Circumstances given;
    given.cpu = std::max<std::int64_t>(most_cpu_, 1);
    given.memory = std::max<std::int64_t>(most_memory_, 1);
    if (policy == Policy::kFgd) {
        given.mix = &mix_table(shape);
        given.mix_weight = mix_weight_;
    }
    return given;
}

// --- decisions

const Fitted& DeviceCluster::fitted(Query& query, std::int32_t shape) const {
    if (query.fitted.size() <= static_cast<std::size_t>(shape)) {
        query.fitted.resize(states_.shapes());
    }
    auto& kept = query.fitted[shape];
    if (!kept) {
        kept = std::make_unique<Fitted>(query.request, states_.shape(shape));
    }
    return *kept;
}

std::uint64_t DeviceCluster::version_of(Policy policy) const {
    switch (policy) {
        case Policy::kBestFit:
        case Policy::kWorstFit:
        case Policy::kDotProduct:
            return scale_version_;
        case Policy::kFgd:
            return mix_version_;
        default:
            return 1;
    }
}

// Answers for one state after another; what follows from their shape alone is kept between them.
class DeviceCluster::Answering {
  public:
    Answering(DeviceCluster& cluster, Query& query, Policy policy)
        : cluster_(cluster),
          query_(query),
          policy_(policy),
          ranking_(query.rankings[static_cast<int>(policy)]) {
        cluster.forget_outdated(query, policy);
    }

    const Answer& of_node(std::int32_t node) {
        static const Answer kNothing{1, Code::kNoDevices, kGpu, false, 0, 0};
        const auto state = cluster_.nodes_[node].state;
        return state < 0 ? kNothing : of_state(state);
    }

    // How good the node is, in one number.
    std::int64_t key(std::int32_t node) {
        const auto& answer = of_node(node);
        if (answer.code != Code::kFits) {
            return kNever;
        }
        // A score is less than 2^59 either way, and a request has four needs at most.
        return (static_cast<std::int64_t>(answer.preferred) << 60) + answer.score;
    }

  private:
    const Answer& of_state(StateId state) {
        auto& answer = kept(state);
        const auto born = cluster_.states_.born(state);
        if (answer.born == born) {
            return answer;
        }
        begin(cluster_.states_.shape_of(state), cluster_.states_.words(state));
        return narrow_ ? work_out(*narrow_, state, born) : work_out(*wide_, state, born);
    }

    Answer& kept(StateId state) {
        if (ranking_.answers.size() <= static_cast<std::size_t>(state)) {
            ranking_.answers.resize(cluster_.states_.size());
        }
        return ranking_.answers[state];
    }

    void begin(std::int32_t number, const std::uint64_t* words) {
        if (number != number_) {
            number_ = number;
            given_ = cluster_.circumstances(policy_, number);
            narrow_.reset();
            wide_.reset();
            const auto& shape = cluster_.states_.shape(number);
            const auto& fitted = cluster_.fitted(query_, number);
            if (shape.mask_words() == 1) {
                narrow_.emplace(query_.request, fitted, shape, words, policy_, given_);
            } else {
                wide_.emplace(query_.request, fitted, shape, words, policy_, given_);
            }
        } else if (narrow_) {
            narrow_->look_at(words);
        } else {
            wide_->look_at(words);
        }
    }

    // Not gathered in an Answer: to copy one whose parts have just been written takes longer than
    // all the rest.
    template <int W>
    const Answer& work_out(Chooser<W>& chooser, StateId state, std::uint32_t born) {
        const auto verdict = chooser.verdict();
        std::int64_t score = 0;
        int preferred = 0;
        bool resolvable = true;
        if (verdict.code == Code::kFits) {
            score = is_sharing(policy_) ? chooser.score_of(chooser.choose()) : chooser.score();
            preferred = query_.has_preferences ? chooser.preferred() : 0;
        } else {
            const auto empty = cluster_.states_.emptied(state);
            resolvable = empty != state && of_state(empty).code == Code::kFits;
        }
        auto& answer = kept(state);
        answer.born = born;
        answer.score = score;
        answer.code = verdict.code;
        answer.type = verdict.type;
        answer.resolvable = resolvable;
        answer.preferred = static_cast<std::int8_t>(preferred);
        return answer;
    }

    DeviceCluster& cluster_;
    Query& query_;
    Policy policy_;
    Ranking& ranking_;
    std::int32_t number_ = -1;  // of the shape
    Circumstances given_;
    std::optional<Chooser<1>> narrow_;
    std::optional<Chooser<kMostDevices / 64>> wide_;
};

void DeviceCluster::answer(Query& query, Policy policy, const std::int64_t* nodes,
                           std::int64_t count, const AnswerColumns& columns) {
    Answering answering(*this, query, policy);
    for (std::int64_t i = 0; i < count; ++i) {
        const auto node = static_cast<std::int32_t>(nodes == nullptr ? i : nodes[i]);
        const auto& answer = answering.of_node(node);
        columns.codes[i] = static_cast<std::int8_t>(answer.code);
        columns.types[i] = answer.type;
        columns.resolvable[i] = answer.resolvable;
        columns.scores[i] = answer.score;
    }
}

// The answers that went by what has changed since.
void DeviceCluster::forget_outdated(Query& query, Policy policy) const {
    auto& ranking = query.rankings[static_cast<int>(policy)];
    if (ranking.version != version_of(policy)) {
        ranking.version = version_of(policy);
        ranking.answers.clear();
        ranking.capacities.clear();
        ranking.is_built = false;
    }
}

void DeviceCluster::bring_up_to_date(Query& query, Policy policy) {
    Answering answering(*this, query, policy);
    auto& ranking = query.rankings[static_cast<int>(policy)];
    const auto now = log_begins_ + log_.size();
    const auto leaves = std::bit_ceil(nodes_.size());
    const bool missed =
        ranking.position < log_begins_ || now - ranking.position > nodes_.size() / 4;
    if (!ranking.is_built || ranking.leaves != leaves || (missed && now != ranking.position)) {
        ranking.leaves = leaves;
        ranking.tree.assign(2 * leaves, kNever);
        for (std::int32_t node = 0; node < nodes(); ++node) {
            ranking.tree[leaves + node] = answering.key(node);
        }
        for (auto at = leaves - 1; at > 0; --at) {
            ranking.tree[at] = std::max(ranking.tree[2 * at], ranking.tree[2 * at + 1]);
        }
        ranking.is_built = true;
    } else {
        for (auto at = ranking.position; at < now; ++at) {
            const auto node = log_[at - log_begins_];
            if (static_cast<std::size_t>(node) >= leaves) {
                continue;  // it was there in a trial
            }
            auto i = leaves + node;
            ranking.tree[i] = node < nodes() ? answering.key(node) : kNever;
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
    Answering answering(*this, query, policy);
    for (const auto each : nodes) {
        const auto node = static_cast<std::int32_t>(each);
        const auto key = answering.key(node);
        if (key > most || (key == most && key != kNever && node < best)) {
            most = key;
            best = node;
        }
    }
    return best;
}

void DeviceCluster::capacity(Query& query, Policy policy, const std::int64_t* nodes,
                             std::int64_t count, std::int32_t most, Query* first,
                             std::int32_t before, std::int32_t* pods) {
    forget_outdated(query, policy);
    std::vector<Capacity> of_call;  // what comes after other pods is not kept
    auto& known = first == nullptr ? query.rankings[static_cast<int>(policy)].capacities : of_call;
    known.resize(std::max(known.size(), states_.size()));
    for (std::int64_t i = 0; i < count; ++i) {
        const auto node = static_cast<std::int32_t>(nodes == nullptr ? i : nodes[i]);
        const auto state = nodes_[node].state;
        if (state < 0) {
            pods[i] = before > 0 ? -1 : 0;
            continue;
        }
        auto& of_state = known[state];
        const bool is_full = of_state.pods < of_state.most;
        if (of_state.born != states_.born(state) || (!is_full && of_state.most < most)) {
            const auto* now = states_.words(state);
            std::vector<std::uint64_t> words(now, now + states_.shape(nodes_[node].shape).words());
            const bool has_room =
                first == nullptr || count_pods(*first, policy, node, before, words) == before;
            of_state = {states_.born(state),
                        has_room ? count_pods(query, policy, node, most, words) : -1, most};
        }
        pods[i] = std::min(of_state.pods, most);
    }
}

// The words become those with all that it counts.
std::int32_t DeviceCluster::count_pods(Query& query, Policy policy, std::int32_t node,
                                       std::int32_t most, std::vector<std::uint64_t>& words) {
    const auto number = nodes_[node].shape;
    const auto& shape = states_.shape(number);
    std::vector<std::uint64_t> before;
    std::vector<Charge> charges;
    bool idle = false;
    for (std::int32_t pods = 0; pods < most && words != before; ++pods) {
        const auto verdict =
            decide(query, policy, node, {}, words.data(), nullptr, false, &charges, &idle);
        if (verdict.code != Code::kFits) {
            return pods;
        }
        before = words;
        apply(shape, words, charges);
        add_up(shape, words);
    }
    return most;  // or the pods take nothing that is counted
}

std::int32_t DeviceCluster::random(Query& query, Draw draw, std::span<const std::int64_t> nodes) {
    std::int32_t best = -1;
    std::int8_t preferred = 0;
    std::uint64_t least = 0;
    Answering answering(*this, query, Policy::kRandom);
    const auto consider = [&](std::int32_t node) {
        const auto& answer = answering.of_node(node);
        if (answer.code != Code::kFits || (best >= 0 && answer.preferred < preferred)) {
            return;
        }
        const auto drawn = drawn_for(draw, static_cast<std::uint64_t>(node));
        if (best < 0 || answer.preferred > preferred || drawn < least ||
            (drawn == least && node < best)) {
            best = node;
            preferred = answer.preferred;
            least = drawn;
        }
    };
    if (nodes.empty()) {
        for (std::int32_t node = 0; node < this->nodes(); ++node) {
            consider(node);
        }
    }
    for (const auto node : nodes) {
        consider(static_cast<std::int32_t>(node));
    }
    return best;
}

std::vector<Charge> DeviceCluster::choose(Query& query, Policy policy, std::int32_t node, Draw draw,
                                          bool& idle) {
    std::vector<Charge> charges;
    decide(query, policy, node, draw, states_.words(nodes_[node].state), nullptr, false, &charges,
           &idle);
    return charges;
}

Verdict DeviceCluster::examine(Query& query, Policy policy, std::int32_t node, const Sight& sight,
                               std::vector<Charge>* charges, bool* idle) {
    if (nodes_[node].state < 0) {
        return {Code::kNoDevices, kGpu};
    }
    const auto number = nodes_[node].shape;
    const auto& shape = states_.shape(number);
    auto words = sight.is_idle ? built(node, nodes_[node].owners, all_of(shape))
                               : built(node, sight.without, healthy(node));
    if (!sight.designated.empty()) {
        std::uint32_t types = 0;
        for (const auto& charge : sight.designated) {
            types |= std::uint32_t{1} << charge.type;
        }
        confine(shape, words, sight.designated, types, true);
        add_up(shape, words);
    }
    return decide(query, policy, node, {}, words.data(), sight.visible, !sight.designated.empty(),
                  charges, idle);
}

const LastChoice& DeviceCluster::choose_of(Query& query, Policy policy, std::int32_t node,
                                           const Visible* visible) {
    auto& chosen = query.chosen;
    const auto state = nodes_[node].state;
    const bool sees_the_same = visible == nullptr ? !chosen.visible : chosen.visible == *visible;
    const bool is_known = state >= 0 && chosen.state == state &&
                          chosen.born == states_.born(state) && chosen.policy == policy &&
                          chosen.cpu == most_cpu_ && chosen.memory == most_memory_ && sees_the_same;
    if (is_known) {
        return chosen;
    }
    chosen.state = -1;
    chosen.charges.clear();
    chosen.idle = false;
    ++chosen.number;
    if (state < 0) {
        chosen.verdict = {Code::kNoDevices, kGpu};
        return chosen;
    }
    chosen.verdict = decide(query, policy, node, {}, states_.words(state), visible, false,
                            &chosen.charges, &chosen.idle);
    if (policy != Policy::kRandom && policy != Policy::kFgd) {  // these go by more than the state
        chosen.state = state;
        chosen.born = states_.born(state);
        chosen.policy = policy;
        chosen.cpu = most_cpu_;
        chosen.memory = most_memory_;
        chosen.visible = visible == nullptr ? std::nullopt : std::optional(*visible);
    }
    return chosen;
}

Verdict DeviceCluster::decide(Query& query, Policy policy, std::int32_t node, Draw draw,
                              const std::uint64_t* words, const Visible* visible, bool is_confined,
                              std::vector<Charge>* charges, bool* idle) {
    const auto number = nodes_[node].shape;
    const auto& shape = states_.shape(number);
    const auto& fit = fitted(query, number);
    auto given = circumstances(policy, number);
    given.draw = draw;
    given.node = static_cast<std::uint64_t>(node);
    given.is_confined = is_confined;
    return with_chooser(
        query.request, fit, shape, words, policy, given, visible, [&](auto& chooser) {
            const auto verdict = chooser.verdict();
            if (verdict.code == Code::kFits && charges != nullptr) {
                *charges = charges_for(query.request, fit, shape, words, chooser.choose());
                *idle = fit.must_be_row;
            }
            return verdict;
        });
}

Verdict DeviceCluster::through(Query& query, Policy policy, std::int32_t owner,
                               std::uint32_t confined, Draw draw, std::vector<Charge>& charges,
                               bool& idle, Worth& worth) {
    const auto node = owners_[owner].node;
    if (nodes_[node].state < 0) {
        return {Code::kNoDevices, kGpu};
    }
    const auto number = nodes_[node].shape;
    const auto& shape = states_.shape(number);
    const auto& own = owners_[owner].charges;
    auto words = built(node, std::span(&owner, 1), healthy(node));
    confine(shape, words, own, confined);
    add_up(shape, words);
    Visible reserved;
    for (const auto& charge : own) {
        if (const int device = shape.find(charge.type, charge.minor); device >= 0) {
            reserved[charge.type].add(device);
        }
    }
    const auto& fit = fitted(query, number);
    auto given = circumstances(policy, number);
    given.draw = draw;
    given.node = static_cast<std::uint64_t>(node);
    given.reserved = &reserved;
    given.is_confined = confined != 0;
    return with_chooser(
        query.request, fit, shape, words.data(), policy, given, nullptr, [&](auto& chooser) {
            const auto verdict = chooser.verdict();
            if (verdict.code == Code::kFits) {
                const auto chosen = chooser.choose();
                charges = charges_for(query.request, fit, shape, words.data(), chosen, own);
                idle = fit.must_be_row;
                worth.preferred = query.has_preferences ? chooser.preferred() : 0;
                worth.score = is_sharing(policy) ? chooser.score_of(chosen) : chooser.score();
            }
            return verdict;
        });
}

bool DeviceCluster::is_possible(Query& query, const std::int64_t* nodes, std::int64_t count) {
    query.possible.resize(std::max<std::size_t>(query.possible.size(), states_.shapes()), -1);
    for (std::int64_t i = 0; i < count; ++i) {
        const auto node = static_cast<std::int32_t>(nodes == nullptr ? i : nodes[i]);
        const auto number = nodes_[node].shape;
        if (number < 0) {
            continue;
        }
        auto& known = query.possible[number];
        if (known < 0) {
            Sight idle;
            idle.is_idle = true;
            const auto verdict = examine(query, Policy::kBinPack, node, idle, nullptr, nullptr);
            known = verdict.code == Code::kFits ? 1 : 0;
        }
        if (known == 1) {
            return true;
        }
    }
    return false;
}

// --- audit

std::string DeviceCluster::audit() const {
    std::vector<std::int32_t> references(states_.size());
    for (std::int32_t node = 0; node < nodes(); ++node) {
        const auto& record = nodes_[node];
        for (std::size_t i = 0; i < record.owners.size(); ++i) {
            const auto& owner = owners_[record.owners[i]];
            if (owner.node != node || owner.place != static_cast<std::int32_t>(i)) {
                return "an owner of node " + std::to_string(node) + " is not on it";
            }
        }
        if (record.state < 0) {
            continue;
        }
        ++references[record.state];
        const auto words = built(node, {}, healthy(node));
        if (!std::equal(words.begin(), words.end(), states_.words(record.state))) {
            return "the state of node " + std::to_string(node) + " is not what its owners have";
        }
    }
    for (const auto& step : undo_.steps()) {
        if (const auto* moved = std::get_if<Moved>(&step); moved != nullptr && moved->before >= 0) {
            ++references[moved->before];
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
    std::uint64_t sum = sizeof *this + states_.bytes() + undo_.bytes() +
                        sizeof(Node) * nodes_.capacity() + sizeof(Owner) * owners_.capacity() +
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
