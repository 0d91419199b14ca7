#include "interleaving/exact/branch_and_cut.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "interleaving/exact/precision.hpp"
#include "interleaving/exact/rounding_cuts.hpp"

namespace hivecore::interleaving {
namespace {

constexpr int kDives = 4;  // steps per row
constexpr int kRounds = 20;
constexpr int kCuts = 4;  // per round
// Cuts go on while a round closes this share of the gap.
constexpr double kWorthwhile = 0.02;
constexpr int kIdle = 3;  // rounds that do not
// A program on which more work is done counts as several: a second or two for 20,000.
constexpr std::int64_t kWork = 100'000;
constexpr int kLastDives = 50;
// Above this fraction a kind is first tried with more groups.
constexpr double kUp = 0.3;

class Search {
  public:
    Search(BucketProgram program, const BoxedSimplex& root)
        : program_(std::move(program)), simplex_(root), bound_(root.bound()) {
        for (const double value : program_.matrix->value) {
            heaviest_ = std::max(heaviest_, std::fabs(value));
        }
    }

    Partition run(LpStatus root, int nodes) {
        const bool is_solved = root == LpStatus::kOptimal;
        if (is_solved) {
            dive(simplex_);
        }
        if (bound_ > enough() && (!is_solved || cut())) {
            reduce(program_, simplex_, {}, bound_, enough());
            branch(nodes);
        }
        best_.bound = std::max(best_.value, unsearched_);
        return std::move(best_);
    }

  private:
    struct Node {
        BoxedSimplex::State state;
        double bound;
    };

    // What a partition has to exceed.
    double enough() const {
        if (best_.value == kNever) {
            return kNever;
        }
        return best_.value + kPrecision * std::max(std::fabs(best_.value), heaviest_);
    }

    void offer(const BoxedSimplex& solved) {
        auto partition = program_.rounded(solved);
        if (partition && partition->value > best_.value) {
            best_ = std::move(*partition);
        }
    }

    // --- a first partition -----------------------------------------------------------------------

    // The largest fraction is rounded up, or down if it cannot be, until all are whole.
    void dive(BoxedSimplex simplex) {
        LpStatus status = LpStatus::kOptimal;
        const int steps = kDives * program_.matrix->rows;
        for (int step = 0; step < steps && status == LpStatus::kOptimal; ++step) {
            const int up = largest_fraction(simplex);
            if (up < 0) {
                offer(simplex);
                return;
            }
            const double x = simplex.x(up);
            const double lower = simplex.lower(up);
            simplex.set_lower(up, std::ceil(x));
            status = simplex.solve();
            if (status != LpStatus::kOptimal) {
                simplex.set_lower(up, lower);
                simplex.set_upper(up, std::floor(x));
                status = simplex.solve();
            }
        }
    }

    int largest_fraction(const BoxedSimplex& simplex) const {
        int best = -1;
        double most = kIntegral;
        for (const int c : simplex.basis()) {
            if (c >= program_.columns()) {
                continue;
            }
            const double fraction = simplex.x(c) - std::floor(simplex.x(c));
            if (fraction > most && fraction < 1 - kIntegral) {
                most = fraction;
                best = c;
            }
        }
        return best;
    }

    // --- cuts ------------------------------------------------------------------------------------

    // Brings the bound down, round by round; whether it still leaves room for a better partition.
    bool cut() {
        int idle = 0;
        for (int round = 0; round < kRounds && idle < kIdle; ++round) {
            const auto cuts = rounding_cuts(*program_.matrix, program_.columns(), program_.right,
                                            simplex_, kCuts);
            if (cuts.empty()) {
                break;
            }
            reduce(program_, simplex_, cuts, bound_, enough());
            const LpStatus status = simplex_.solve();
            if (status == LpStatus::kInfeasible) {
                return false;
            }
            const double before = bound_;
            bound_ = std::min(bound_, simplex_.bound());
            if (bound_ <= enough()) {
                return false;
            }
            if (status != LpStatus::kOptimal || program_.most_fractional(simplex_) < 0) {
                break;
            }
            const bool is_idle = before - bound_ < kWorthwhile * (before - best_.value);
            idle = is_idle ? idle + 1 : 0;
        }
        return true;
    }

    // --- branches --------------------------------------------------------------------------------

    // Depth first.
    void branch(int nodes) {
        open_.push_back({simplex_.state(), bound_});
        const std::int64_t begin = simplex_.work();
        for (std::int64_t done = 0; !open_.empty(); ++done) {
            Node node = std::move(open_.back());
            open_.pop_back();
            if (node.bound <= enough()) {
                continue;
            }
            if (std::max(done, (simplex_.work() - begin) / kWork) < nodes) {
                examine(std::move(node));
            } else {
                give_up(std::move(node));
            }
        }
    }

    // Not without a last dive, so that what was found is good at least.
    void give_up(Node node) {
        unsearched_ = std::max(unsearched_, node.bound);
        if (last_dives_ < kLastDives) {
            ++last_dives_;
            simplex_.resume(std::move(node.state));
            if (simplex_.solve() == LpStatus::kOptimal && simplex_.bound() > enough()) {
                dive(simplex_);
            }
        }
    }

    void examine(Node node) {
        simplex_.resume(std::move(node.state));
        const LpStatus status = simplex_.solve();
        if (status == LpStatus::kInfeasible) {
            return;
        }
        const double bound = std::min(node.bound, simplex_.bound());
        if (bound <= enough()) {
            return;
        }
        const bool is_solved = status == LpStatus::kOptimal;
        const int column = is_solved ? program_.most_fractional(simplex_) : -1;
        if (column >= 0) {
            split(column, bound);
            return;
        }
        if (is_solved) {
            offer(simplex_);
        }
        if (bound > enough()) {
            unsearched_ = std::max(unsearched_, bound);
        }
    }

    void split(int column, double bound) {
        tighten_by_prices(bound - best_.value);
        const double x = simplex_.x(column);
        Node down{simplex_.state(), bound};
        Node up = down;
        down.state.upper[column] = std::floor(x);
        up.state.lower[column] = std::floor(x) + 1;
        const bool is_up_first = x - std::floor(x) >= kUp;
        open_.push_back(std::move(is_up_first ? down : up));
        open_.push_back(std::move(is_up_first ? up : down));
    }

    // No better partition is further from the bounds at which columns stand than the gap allows.
    void tighten_by_prices(double gap) {
        if (gap == BoxedSimplex::kInfinity) {
            return;
        }
        for (int c = 0; c < program_.columns(); ++c) {
            const double gain = simplex_.gain(c);
            const double lower = simplex_.lower(c);
            const double upper = simplex_.upper(c);
            if (simplex_.is_basic(c) || lower == upper || gain == 0.0) {
                continue;
            }
            const double steps = std::floor(gap / std::fabs(gain) + 1e-9);
            if (lower + steps >= upper) {
                continue;
            }
            if (gain < 0) {
                simplex_.set_upper(c, lower + steps);
            } else {
                simplex_.set_lower(c, upper - steps);
            }
        }
    }

    BucketProgram program_;
    BoxedSimplex simplex_;
    double bound_;  // of the program as a whole
    double heaviest_ = 0.0;
    Partition best_;
    std::vector<Node> open_;
    double unsearched_ = kNever;  // bound of what was left out
    int last_dives_ = 0;
};

}  // namespace

Partition branch_and_cut(BucketProgram program, const BoxedSimplex& root, LpStatus status,
                         int nodes) {
    return Search(std::move(program), root).run(status, nodes);
}

}  // namespace hivecore::interleaving
