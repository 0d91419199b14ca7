#include "dra/search.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "dra/first_fit.hpp"
#include "dra/packing.hpp"
#include "dra/work.hpp"

namespace hivecore::dra {

namespace {

constexpr auto kNone = Mask::kNone;

// Whether an answer exists beside the grants so far, and which.
class Feasibility {
  public:
    Feasibility(const Problem& problem, Grants& grants, Work& work)
        : problem_(problem),
          grants_(grants),
          work_(work),
          packing_(problem, grants, work),
          fixed_(problem.requests, kNone),
          devices_(problem.requests),
          chosen_(problem.requests, kNone),
          value_(problem.claims.constraints.size(), kNone),
          least_(problem.requests) {
        order_variables();
        for (Index r = 0; r < problem.requests; ++r) {
            least_[r] = problem.wanted[problem.first_alternative[r]];
            for_alternatives(r,
                             [&](Index a) { least_[r] = std::min(least_[r], problem.wanted[a]); });
        }
    }

    // The alternative that a request must have, or kNone; and a device that it must have, given.
    void fix(Index request, Index alternative) { fixed_[request] = alternative; }
    Index fixed(Index request) const { return fixed_[request]; }
    const std::vector<Index>& all_fixed() const { return fixed_; }

    // Whether there is an answer. Of a success, `alternative` and `devices` describe it.
    bool exists() {
        if (variables_.size() > kDeepest) {
            throw OutOfWork{};
        }
        failed_.clear();
        const auto given = grants_.list().size();
        try {
            for (Index r = 0; r < problem_.requests; ++r) {
                chosen_[r] = only_alternative(r);
            }
            std::ranges::fill(value_, kNone);
            is_refuted_ = false;
            until_bound_ = work_.done() + kBeforeBound;
            return is_possible() && check(0) && (given > 0 || find_value_shortage().empty()) &&
                   decide(0);
        } catch (const OutOfWork&) {
            while (grants_.list().size() > given) {
                grants_.take_back();
            }
            throw;
        }
    }

    Index alternative(Index request) const { return answer_[request]; }
    // Those beside the grants.
    std::vector<Index>& devices(Index request) { return devices_[request]; }
    const std::vector<Index>& equal() const { return packing_.equal(); }

    void explain(Answer& answer);

  private:
    // A request with alternatives, or a match constraint: after the requests that it concerns.
    struct Variable {
        bool is_request;
        Index number;
    };

    template <class Action>
    void for_alternatives(Index request, Action action) const {
        for (auto a = problem_.first_alternative[request];
             a < problem_.first_alternative[request + 1]; ++a) {
            action(a);
        }
    }
    Index only_alternative(Index request) const {
        const auto first = problem_.first_alternative[request];
        return problem_.first_alternative[request + 1] == first + 1 ? first : fixed_[request];
    }
    Index claim_of(Index request) const {
        return static_cast<Index>(
            problem_.claims.alternatives[problem_.first_alternative[request]].claim);
    }
    Index request_of(Index alternative) const {
        return static_cast<Index>(problem_.claims.alternatives[alternative].request);
    }
    Index given_to(Index request) const {
        return static_cast<Index>(std::ranges::count_if(grants_.list(), [&](const Grant& grant) {
            return request_of(grant.alternative) == request;
        }));
    }

    void order_variables();
    bool is_possible() const;
    std::vector<Index> find_value_shortage();
    Index count_served(const std::vector<Index>& requests, Index constraint, Index value,
                       Index most);
    bool decide(Index at);
    bool decide_request(Index at);
    bool decide_value(Index at);
    bool check(Index at);
    std::string list_demands(Index at);
    void add_demand(Index request, std::string& key);
    Mask allowed(Index request, Index alternative) const;
    const Mask& with_value(Index constraint, Index value) const;
    Mask with_common_value(Index constraint) const;
    void keep_answer();

    const Problem& problem_;
    Grants& grants_;
    Work& work_;
    Packing packing_;
    std::vector<Index> fixed_;
    std::vector<Index> answer_;
    std::vector<std::vector<Index>> devices_;
    std::vector<Variable> variables_;
    std::vector<Index> chosen_;  // of each request its alternative, or kNone
    std::vector<Index> value_;   // of each constraint, or kNone
    std::vector<Index> least_;   // devices that a request wants at least
    static constexpr std::uint64_t kBeforeBound = 1000;  // steps
    static constexpr Index kDeepest = 512;               // variables: as deep is the recursion

    bool is_refuted_ = false;
    std::uint64_t until_bound_ = 0;
    std::unordered_set<std::string> failed_;
    std::vector<Demand> demands_;
    std::vector<Index> demand_of_;  // of each request
    mutable std::map<std::pair<Index, Index>, Mask> with_value_;
};

void Feasibility::order_variables() {
    std::vector<bool> is_placed(problem_.requests);
    const auto place = [&](Index request) {
        const bool has_choice =
            problem_.first_alternative[request + 1] > problem_.first_alternative[request] + 1;
        if (has_choice && !is_placed[request]) {
            is_placed[request] = true;
            variables_.push_back({true, request});
        }
    };
    for (Index j = 0; j < problem_.claims.constraints.size(); ++j) {
        const auto& constraint = problem_.claims.constraints[j];
        if (constraint.is_match) {
            for (const auto a : constraint.alternatives) {
                place(request_of(static_cast<Index>(a)));
            }
            variables_.push_back({false, j});
        }
    }
    for (Index r = 0; r < problem_.requests; ++r) {
        place(r);
    }
}

// No claim wants too many devices, and each request has an alternative that could be served alone.
bool Feasibility::is_possible() const {
    std::map<Index, Index> of_claim;
    for (Index r = 0; r < problem_.requests; ++r) {
        const auto a = chosen_[r];
        of_claim[claim_of(r)] += a == kNone ? least_[r] : problem_.wanted[a];
        bool is_served = false;
        for_alternatives(r, [&](Index each) {
            is_served = is_served || ((a == kNone || a == each) &&
                                      problem_.wanted[each] <= problem_.devices[each].size());
        });
        if (!is_served) {
            return false;
        }
    }
    return std::ranges::all_of(of_claim, [](const auto& of) { return of.second <= kMostDevices; });
}

// Requests of equal match constraints of which there are more than all values together can serve,
// each value by itself; or none. Only constraints whose requests have no other choice count.
std::vector<Index> Feasibility::find_value_shortage() {
    struct Equals {
        std::vector<Index> requests;  // of the first
        std::vector<Index> all;
        Index constraint = 0;
        Index count = 0;
    };
    std::map<std::vector<Index>, Equals> by_rules;
    std::vector<Index> uses(problem_.requests);
    for (const auto& constraint : problem_.claims.constraints) {
        for (const auto a : constraint.alternatives) {
            uses[request_of(static_cast<Index>(a))] += constraint.is_match ? 1 : 0;
        }
    }
    for (Index j = 0; j < problem_.claims.constraints.size(); ++j) {
        std::vector<Index> rules;
        std::vector<Index> requests;
        bool counts = problem_.claims.constraints[j].is_match;
        for (const auto a : problem_.claims.constraints[j].alternatives) {
            const auto r = request_of(static_cast<Index>(a));
            counts =
                counts && chosen_[r] == static_cast<Index>(a) && uses[r] == 1 && given_to(r) == 0;
            requests.push_back(r);
            rules.push_back(packing_.same(static_cast<Index>(a)));
            rules.push_back(problem_.wanted[static_cast<Index>(a)]);
        }
        if (!counts || requests.empty()) {
            continue;
        }
        for (Index d = 0; d < problem_.node.devices.size(); ++d) {  // of one attribute
            const auto& words = problem_.values[j][d].words();
            rules.insert(rules.end(), words.begin(), words.end());
        }
        auto& equals = by_rules[rules];
        if (equals.count++ == 0) {
            equals.requests = requests;
            equals.constraint = j;
        }
        equals.all.insert(equals.all.end(), requests.begin(), requests.end());
    }
    for (const auto& [rules, equals] : by_rules) {
        Index served = 0;
        for_each(grants_.values(equals.constraint), [&](Index value) {
            if (served < equals.count) {
                served +=
                    count_served(equals.requests, equals.constraint, value, equals.count - served);
            }
        });
        if (served < equals.count) {
            return equals.all;
        }
    }
    return {};
}

// How often the devices with a value can serve these requests, up to a number.
Index Feasibility::count_served(const std::vector<Index>& requests, Index constraint, Index value,
                                Index most) {
    std::vector<Demand> demands;
    for (const auto r : requests) {
        Demand demand;
        demand.alternative = chosen_[r];
        demand.count = problem_.wanted[chosen_[r]];
        demand.allowed = allowed(r, chosen_[r]);
        demand.allowed &= with_value(constraint, value);
        if (!problem_.has_shares[chosen_[r]]) {
            most = std::min(most, demand.allowed.count() / demand.count);
        }
        demands.push_back(std::move(demand));
    }
    for (; most > 0; --most) {
        auto together = demands;
        for (auto& demand : together) {
            demand.count *= most;
        }
        if (most <= kMostDevices && packing_.serve(together)) {
            return most;
        }
    }
    return 0;
}

bool Feasibility::decide(Index at) {
    work_.add();
    if (at == variables_.size()) {
        keep_answer();  // of the check before
        return true;
    }
    if (work_.done() > until_bound_) {  // this may take long: the bound is worth its time
        until_bound_ = ~std::uint64_t{0};
        is_refuted_ = !find_value_shortage().empty();
    }
    if (is_refuted_) {
        return false;
    }
    return variables_[at].is_request ? decide_request(at) : decide_value(at);
}

bool Feasibility::decide_request(Index at) {
    const auto r = variables_[at].number;
    if (chosen_[r] != kNone) {
        return decide(at + 1);
    }
    bool exists = false;
    for_alternatives(r, [&](Index a) {
        if (!exists) {
            chosen_[r] = a;
            exists = is_possible() && check(at + 1) && decide(at + 1);
        }
    });
    chosen_[r] = kNone;
    return exists;
}

bool Feasibility::decide_value(Index at) {
    const auto j = variables_[at].number;
    std::vector<Index> requests;
    for (const auto a : problem_.claims.constraints[j].alternatives) {
        const auto r = request_of(static_cast<Index>(a));
        if (chosen_[r] == static_cast<Index>(a)) {
            requests.push_back(r);
        }
    }
    if (requests.empty()) {
        return decide(at + 1);
    }
    bool exists = false;
    for_each(grants_.values(j), [&](Index value) {
        const bool is_enough = !exists && std::ranges::all_of(requests, [&](Index r) {
            const auto a = chosen_[r];
            return given_to(r) + allowed(r, a).count_common(with_value(j, value)) >=
                   problem_.wanted[a];
        });
        if (is_enough) {
            value_[j] = value;
            exists = check(at + 1) && decide(at + 1);
            value_[j] = kNone;
        }
    });
    return exists;
}

// Whether the demands so far can be served, as far as they are decided. What has been found
// impossible is not looked at again.
bool Feasibility::check(Index at) {
    auto key = list_demands(at);
    if (failed_.contains(key)) {
        return false;
    }
    failed_.insert(std::move(key));  // of a success the search ends, or goes on only if it fails
    return packing_.serve(demands_);
}

// The demands of all requests; and a text of all that later decisions depend on.
std::string Feasibility::list_demands(Index at) {
    demands_.clear();
    demand_of_.assign(problem_.requests, kNone);
    std::map<std::string, Index> known;
    for (Index r = 0; r < problem_.requests; ++r) {
        std::string own;
        add_demand(r, own);
        const auto [entry, is_new] = known.try_emplace(own, demands_.size() - 1);
        if (!is_new && entry->second != demands_.size() - 1) {
            demands_[entry->second].count += demands_.back().count;
            demands_.pop_back();
        }
        demand_of_[r] = entry->second;
    }
    std::string key;
    const auto add = [&](Index number) {
        key.append(reinterpret_cast<const char*>(&number), sizeof number);
    };
    add(at);
    for (const auto& [own, t] : known) {
        key += own;
        add(demands_[t].count);
    }
    std::map<Index, Index> of_claim;  // how much a claim with choices left has
    for (auto later = at; later < variables_.size(); ++later) {
        const auto [is_request, number] = variables_[later];
        if (is_request && chosen_[number] == kNone) {
            of_claim.emplace(claim_of(number), 0);
        } else if (!is_request) {
            for (const auto a : problem_.claims.constraints[number].alternatives) {
                add(chosen_[request_of(static_cast<Index>(a))]);
            }
        }
    }
    for (Index r = 0; r < problem_.requests; ++r) {
        const auto of = of_claim.find(claim_of(r));
        if (of != of_claim.end() && chosen_[r] != kNone) {
            of->second += problem_.wanted[chosen_[r]];
        }
    }
    for (const auto& [claim, count] : of_claim) {
        add(count);
    }
    return key;
}

void Feasibility::add_demand(Index request, std::string& key) {
    const auto given = given_to(request);
    Demand demand;
    if (chosen_[request] != kNone) {
        const auto a = chosen_[request];
        demand.alternative = a;
        demand.count = problem_.wanted[a] - given;
        demand.allowed = allowed(request, a);
        demand.is_separate = demand.count > 1 && problem_.has_shares[a];
    } else {
        demand.is_relaxed = true;
        demand.count = least_[request];
        demand.allowed = Mask(problem_.node.devices.size());
        for_alternatives(request, [&](Index a) { demand.allowed |= allowed(request, a); });
    }
    const auto same = demand.is_relaxed ? kNone : packing_.same(demand.alternative);
    const bool is_own = demand.is_separate || demand.is_relaxed;
    for (const auto number : {same, is_own ? request : kNone}) {
        key.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
    const auto& words = demand.allowed.words();
    key.append(reinterpret_cast<const char*>(words.data()), words.size() * sizeof words[0]);
    demands_.push_back(std::move(demand));
}

// The devices that a request may still have, by the values decided so far.
Mask Feasibility::allowed(Index request, Index alternative) const {
    auto mask = problem_.suits[alternative];
    for (const auto j : problem_.constraints[alternative]) {
        if (problem_.claims.constraints[j].is_match) {
            mask &= value_[j] != kNone ? with_value(j, value_[j]) : with_common_value(j);
        }
    }
    for (const auto& grant : grants_.list()) {
        if (request_of(grant.alternative) == request) {
            mask.erase(grant.device);
        }
    }
    return mask;
}

const Mask& Feasibility::with_value(Index constraint, Index value) const {
    const auto [entry, is_new] = with_value_.try_emplace({constraint, value});
    if (is_new) {
        entry->second = Mask(problem_.node.devices.size());
        for (Index d = 0; d < problem_.node.devices.size(); ++d) {
            if (problem_.values[constraint][d].has(value)) {
                entry->second.insert(d);
            }
        }
    }
    return entry->second;
}

Mask Feasibility::with_common_value(Index constraint) const {
    Mask mask(problem_.node.devices.size());
    for_each(grants_.values(constraint),
             [&](Index value) { mask |= with_value(constraint, value); });
    return mask;
}

void Feasibility::keep_answer() {
    answer_ = chosen_;
    std::vector<Index> next(demands_.size());
    for (Index r = 0; r < problem_.requests; ++r) {
        const auto t = demand_of_[r];
        const auto& served = packing_.served()[t];
        const auto count = problem_.wanted[chosen_[r]] - given_to(r);
        const auto first = served.begin() + static_cast<std::ptrdiff_t>(next[t]);
        devices_[r].assign(first, first + static_cast<std::ptrdiff_t>(count));
        next[t] += count;
    }
}

// The simplest reason why there is no answer.
void Feasibility::explain(Answer& answer) {
    std::map<Index, Index> of_claim;
    for (Index r = 0; r < problem_.requests; ++r) {
        of_claim[claim_of(r)] += least_[r] == kNever ? 0 : least_[r];
    }
    for (const auto& [claim, wanted] : of_claim) {
        if (wanted > kMostDevices) {
            answer.reason = Reason::kClaim;
            answer.wanted = wanted;
            answer.present = kMostDevices;
            for (Index r = 0; r < problem_.requests; ++r) {
                if (claim_of(r) == claim) {
                    answer.requests.push_back(r);
                }
            }
            return;
        }
    }
    for (Index r = 0; r < problem_.requests; ++r) {
        Index present = 0;
        bool is_enough = false;
        for_alternatives(r, [&](Index a) {
            present = std::max(present, problem_.devices[a].size());
            is_enough = is_enough || problem_.wanted[a] <= problem_.devices[a].size();
        });
        if (!is_enough) {
            answer.reason = Reason::kCount;
            answer.requests = {r};
            answer.wanted = least_[r] == kNever ? 1 : least_[r];
            answer.present = present;
            return;
        }
    }
    answer.reason = Reason::kCombination;
    for (Index r = 0; r < problem_.requests; ++r) {
        chosen_[r] = only_alternative(r);
    }
    std::ranges::fill(value_, kNone);
    answer.requests = find_value_shortage();
    if (!answer.requests.empty()) {
        answer.reason = Reason::kConstraint;
        return;
    }
    std::ranges::fill(value_, kNone);
    list_demands(0);
    if (!packing_.serve(demands_) && !packing_.shortage().empty()) {
        answer.reason = Reason::kShortage;
        Mask devices(problem_.node.devices.size());
        for (const auto t : packing_.shortage()) {
            devices |= demands_[t].allowed;
            answer.wanted += demands_[t].count;
        }
        answer.present = devices.count();
        for (Index r = 0; r < problem_.requests; ++r) {
            if (std::ranges::count(packing_.shortage(), demand_of_[r]) > 0) {
                answer.requests.push_back(r);
            }
        }
    }
}

class Search {
  public:
    Search(const Problem& problem, std::uint64_t limit, std::uint64_t few)
        : problem_(problem), grants_(problem), work_(limit), limit_(limit), few_(few) {}

    Answer run(Mode mode) {
        std::vector<Index> free(problem_.requests, kNone);
        const bool has_choice = problem_.requests < problem_.claims.alternatives.size();
        if (mode != Mode::kBest || !has_choice) {
            const auto steps = std::min(few_, limit_);
            if (const auto done = first_fit(problem_, grants_, free, steps)) {
                answer_.outcome = *done ? Outcome::kAllocated : Outcome::kUnsatisfiable;
            } else {
                take_back(0);
                search_exactly(mode);
            }
        } else {
            search_exactly(mode);
        }
        if (answer_.outcome == Outcome::kAllocated) {
            answer_.grants = grants_.list();
        } else if (answer_.outcome == Outcome::kUnsatisfiable) {
            explain();
        }
        answer_.work = work_.done();
        return std::move(answer_);
    }

  private:
    void take_back(Index given) {
        while (grants_.list().size() > given) {
            grants_.take_back();
        }
    }

    Feasibility& feasibility() {
        if (!feasibility_) {
            feasibility_.emplace(problem_, grants_, work_);
        }
        return *feasibility_;
    }

    void explain() {
        try {
            work_.allow(kForReason);
            feasibility().explain(answer_);
        } catch (const OutOfWork&) {
            answer_.reason = Reason::kCombination;
        }
    }

    void search_exactly(Mode mode) {
        try {
            answer_.outcome =
                feasibility().exists() ? Outcome::kAllocated : Outcome::kUnsatisfiable;
        } catch (const OutOfWork&) {
            answer_.outcome = Outcome::kUnknown;
        }
        if (answer_.outcome != Outcome::kAllocated) {
            return;
        }
        if (mode == Mode::kBest) {
            for (Index r = 0; r < problem_.requests; ++r) {
                choose_alternative(r);
            }
            const auto steps = std::min(few_, limit_ - std::min(limit_, work_.done()));
            if (first_fit(problem_, grants_, feasibility().all_fixed(), steps).value_or(false)) {
                return;
            }
            take_back(0);
        }
        for (Index r = 0; r < problem_.requests; ++r) {
            if (mode == Mode::kFirst) {
                choose_alternative(r);
            }
            choose_devices(r, mode == Mode::kAny);
        }
    }

    // The first with which an answer exists.
    void choose_alternative(Index r) {
        auto& search = feasibility();
        for (auto a = problem_.first_alternative[r];; ++a) {
            if (a == search.alternative(r)) {
                search.fix(r, a);
                return;
            }
            search.fix(r, a);
            if (exists()) {
                return;
            }
        }
    }

    // One by one the first with which an answer exists; or those of the answer at hand.
    void choose_devices(Index r, bool any) {
        auto& search = feasibility();
        const auto a = search.alternative(r);
        search.fix(r, a);
        Index taken = 0;
        for (const auto d : problem_.devices[a]) {
            if (taken == problem_.wanted[a]) {
                return;
            }
            auto& known = search.devices(r);
            const auto same = std::ranges::find_if(known, [&](Index other) {
                return other == d ||
                       (!any && !grants_.is_given(d) && search.equal()[other] == search.equal()[d]);
            });
            const bool is_known = std::ranges::count(known, d) > 0;
            if (!is_known && same != known.end()) {
                exchange(*same, d);
            } else if (!is_known) {
                if (any || !grants_.give(a, d)) {
                    continue;
                }
                if (!exists()) {
                    grants_.take_back();
                    continue;
                }
                ++taken;
                continue;
            }
            std::erase(search.devices(r), d);
            grants_.give(a, d);
            ++taken;
        }
    }

    // Two equal devices in the answer at hand.
    void exchange(Index first, Index other) {
        for (Index r = 0; r < problem_.requests; ++r) {
            for (auto& device : feasibility().devices(r)) {
                device = device == first ? other : device == other ? first : device;
            }
        }
    }

    // A limit says no: the answer is right then, but maybe not the first.
    bool exists() {
        try {
            return feasibility().exists();
        } catch (const OutOfWork&) {
            answer_.is_first = false;
            return false;
        }
    }

    static constexpr std::uint64_t kForReason = 5000;  // steps

    const Problem& problem_;
    Grants grants_;
    Work work_;
    std::uint64_t limit_;
    std::uint64_t few_;
    std::optional<Feasibility> feasibility_;
    Answer answer_;
};

}  // namespace

Answer search(const Node& node, const Claims& claims, const Budgets& budgets, Mode mode,
              std::uint64_t limit, std::uint64_t few) {
    check(node, claims, budgets);
    const Problem problem(node, claims, budgets);
    return Search(problem, limit, few).run(mode);
}

}  // namespace hivecore::dra
