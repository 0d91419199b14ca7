// The devices of all nodes of a cluster, and how much of them each owner has.
//
// A node has a state (see states.hpp) and owners. What is used in a state is the sum of what the
// owners have of the devices that are there; an owner keeps what it has by minor and amount, so it
// stays charged when the inventory changes under it. A query is a request that may come again: it
// keeps, for a policy, an answer per state and the nodes in a tournament by how good they are.
// Every change of a node is written to a log, from which a query learns what it has to look at
// again.
//
// Invariants: a node's state is that of its owners; each query's tree agrees with the answers for
// the states that the nodes had at its position in the log.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "devices/charges.hpp"
#include "devices/choice/chooser.hpp"
#include "devices/states.hpp"
#include "devices/undo_log.hpp"

namespace hivecore::devices {

// How good a choice is: how many needs are in their preferred scopes, then the node's score.
struct Worth {
    int preferred = 0;
    std::int64_t score = 0;
};

struct Answer {
    std::uint32_t born = 0;  // of the state; 0: not worked out
    Code code = Code::kFits;
    Type type = kGpu;
    bool resolvable = true;
    std::int8_t preferred = 0;
    std::int64_t score = 0;
};

// How many pods fit in a state, of at most so many that were asked for.
struct Capacity {
    std::uint32_t born = 0;  // of the state; 0: not counted
    std::int32_t pods = 0;
    std::int32_t most = 0;
};

// The nodes by how good they are for a query.
struct Ranking {
    std::uint64_t version = 0;         // of what the policy goes by beside states
    std::vector<Answer> answers;       // by state
    std::vector<Capacity> capacities;  // by state
    std::vector<std::int64_t> tree;    // leaf of node i: tree[leaves + i]
    std::size_t leaves = 0;
    std::uint64_t position = 0;  // in the log
    bool is_built = false;
};

// The answers for several nodes, an array for each part.
struct AnswerColumns {
    std::int8_t* codes = nullptr;
    std::int8_t* types = nullptr;
    std::uint8_t* resolvable = nullptr;
    std::int64_t* scores = nullptr;
};

// What `DeviceCluster::choose_of` has chosen last: it holds for every node in the same state.
struct LastChoice {
    StateId state = -1;  // -1: nothing that holds for others
    std::uint32_t born = 0;
    Policy policy = Policy::kBinPack;
    std::int64_t cpu = 0, memory = 0;  // see Circumstances
    std::optional<Visible> visible;    // none: all
    Verdict verdict{Code::kFits, kGpu};
    std::vector<Charge> charges;
    bool idle = false;
    std::uint64_t number = 0;  // how often something was chosen
};

struct Query {
    explicit Query(Request given)
        : request(std::move(given)),
          has_preferences(std::ranges::any_of(
              request.needs, [](const auto& need) { return need.preferred >= 0; })) {}

    Request request;
    bool has_preferences;
    std::vector<std::unique_ptr<Fitted>> fitted;  // by shape
    std::array<Ranking, kPolicies> rankings;      // by policy
    std::vector<std::int8_t> possible;  // by shape, of an idle and healthy node; -1: not known
    LastChoice chosen;

    std::uint64_t bytes() const;
};

class DeviceCluster {
  public:
    static constexpr std::int32_t kMostNodes = 1 << 24;

    DeviceCluster() = default;
    // With its marks.
    DeviceCluster(const DeviceCluster&) = default;
    DeviceCluster& operator=(const DeviceCluster&) = delete;

    std::int32_t add_shape(Shape shape);
    // Forgets the shapes that no node has, and returns their numbers: none while there are marks.
    // No query that was asked before may be asked again.
    std::vector<std::int32_t> drop_unused_shapes();
    // What a node has from now on: its shape (-1: it is no node) and which devices are healthy. It
    // may be new; numbers before it that were not given yet are no nodes.
    void set_node(std::int32_t node, std::int32_t shape, const Visible& healthy);
    std::int32_t nodes() const { return static_cast<std::int32_t>(nodes_.size()); }
    bool has_shape(std::int32_t number) const { return states_.has_shape(number); }
    Visible healthy(std::int32_t node) const;
    std::span<const std::int32_t> owners(std::int32_t node) const { return nodes_[node].owners; }

    // --- owners

    // Whether all of this is free on a node; `idle`: and its GPUs are not used.
    bool is_free(std::int32_t node, std::span<const Charge> charges, bool idle) const;
    // An owner's number. What it has may be more than there is.
    std::int32_t charge(std::int32_t node, std::vector<Charge> charges);
    void refund(std::int32_t owner);
    // From now on the owner has this instead.
    void recharge(std::int32_t owner, std::vector<Charge> charges);
    bool is_owner(std::int32_t owner) const {
        return owner >= 0 && owner < static_cast<std::int32_t>(owners_.size()) &&
               owners_[owner].node >= 0;
    }
    std::int32_t node_of(std::int32_t owner) const { return owners_[owner].node; }
    const std::vector<Charge>& charges_of(std::int32_t owner) const {
        return owners_[owner].charges;
    }

    // --- trials: marks nest; the last one set ends first

    void mark() { undo_.begin(); }
    std::size_t marks() const { return undo_.marks(); }
    // Ends the last mark and undoes what has happened to nodes and owners since, in time
    // proportional to that. The mix stays, unless it is too heavy then.
    void rewind();
    // Ends the last mark; what was done is kept.
    void keep();

    // --- what policies go by

    // Which pods come, for fgd. The sum of the weights times what is on a node must be below 2^57;
    // false: it is not, and nothing has changed.
    bool set_mix(TaskMix mix);
    // Sum over the nodes, in units of memory times weight.
    std::int64_t fragmentation(std::int32_t node);
    // The most that a node's GPUs have together.
    std::int64_t most_memory() const { return most_memory_; }

    // --- decisions

    // The answers for these nodes; nullptr: for the first so many.
    void answer(Query& query, Policy policy, const std::int64_t* nodes, std::int64_t count,
                const AnswerColumns& columns);
    // The best node, the lowest of equals; -1: none serves the request.
    std::int32_t best(Query& query, Policy policy);
    std::int32_t best_of(Query& query, Policy policy, std::span<const std::int64_t> nodes);
    // How many such pods each of these nodes can hold, `most` at the most, if each in turn gets
    // what `choose` gives it; nullptr: of the first so many. With `first` after so many of those;
    // -1: they do not fit. Nodes in one state are counted once.
    void capacity(Query& query, Policy policy, const std::int64_t* nodes, std::int64_t count,
                  std::int32_t most, Query* first, std::int32_t before, std::int32_t* pods);
    // Any node that serves it, drawn by a seed and the request's number; empty: of all nodes.
    std::int32_t random(Query& query, Draw draw, std::span<const std::int64_t> nodes);
    // What a node gives that serves the request.
    std::vector<Charge> choose(Query& query, Policy policy, std::int32_t node, Draw draw,
                               bool& idle);
    // Whether an owner's node serves it through what the owner has, as if it had left: its devices
    // first or, of the confined types (as bits), no others, and no more of them than it has.
    Verdict through(Query& query, Policy policy, std::int32_t owner, std::uint32_t confined,
                    Draw draw, std::vector<Charge>& charges, bool& idle, Worth& worth);
    // What of a node a request may use, and as what it sees the node.
    struct Sight {
        const Visible* visible = nullptr;       // its devices; nullptr: all
        std::span<const std::int32_t> without;  // owners that are thought away
        bool is_idle = false;                   // all owners are, and all devices are healthy
        // Of the types in it nothing else may be had; none: anything may.
        std::span<const Charge> designated;
    };

    // Whether a node serves it so; what it gives then, unless that is not asked for.
    Verdict examine(Query& query, Policy policy, std::int32_t node, const Sight& sight,
                    std::vector<Charge>* charges, bool* idle);
    // The same for some devices of a node (nullptr: all); what holds for others in its state is
    // kept.
    const LastChoice& choose_of(Query& query, Policy policy, std::int32_t node,
                                const Visible* visible);
    // Whether one of these nodes, or of the first so many where `nodes` is nullptr, would serve it
    // idle and healthy.
    bool is_possible(Query& query, const std::int64_t* nodes, std::int64_t count);

    std::string audit() const;
    std::uint64_t bytes() const;
    std::size_t states() const { return states_.live(); }

  private:
    struct Node {
        std::int32_t shape = -1;
        StateId state = -1;
        std::vector<std::int32_t> owners;
    };

    std::vector<std::uint64_t> built(std::int32_t node, std::span<const std::int32_t> without,
                                     const Visible& healthy) const;
    void move_to(std::int32_t node, const std::vector<std::uint64_t>& words) {
        move_to(node, states_.intern(nodes_[node].shape, words.data()));
    }
    void move_to(std::int32_t node, StateId now);
    void undo_step(const Charged& step);
    void undo_step(Refunded& step);
    void undo_step(Recharged& step);
    void undo_step(const Reshaped& step);
    void undo_step(const Moved& step);
    void note(std::int32_t node);
    void count_node(std::int32_t shape, int change);
    void drop_heavy_mix();
    std::uint64_t version_of(Policy policy) const;
    const MixTable& mix_table(std::int32_t shape);
    Circumstances circumstances(Policy policy, std::int32_t shape);
    const Fitted& fitted(Query& query, std::int32_t shape) const;
    class Answering;
    Verdict decide(Query& query, Policy policy, std::int32_t node, Draw draw,
                   const std::uint64_t* words, const Visible* visible, bool is_confined,
                   std::vector<Charge>* charges, bool* idle);
    std::int32_t count_pods(Query& query, Policy policy, std::int32_t node, std::int32_t most,
                            std::vector<std::uint64_t>& words);
    void forget_outdated(Query& query, Policy policy) const;
    void bring_up_to_date(Query& query, Policy policy);

    States states_;
    std::vector<Node> nodes_;
    std::vector<Owner> owners_;
    std::vector<std::int32_t> free_owners_;
    std::vector<std::int32_t> log_;  // nodes that changed
    std::uint64_t log_begins_ = 0;
    UndoLog undo_;

    // By shape: its nodes, and what each of them has.
    struct Counted {
        std::int64_t nodes = 0, cpu = 0, memory = 0;
    };
    std::vector<Counted> of_shape_;
    std::int64_t most_cpu_ = 0, most_memory_ = 0;  // that a node has
    std::uint64_t scale_version_ = 1, mix_version_ = 1;
    TaskMix mix_;
    std::int64_t mix_weight_ = 0;
    std::vector<std::shared_ptr<const MixTable>> mix_tables_;  // by shape
};

}  // namespace hivecore::devices
