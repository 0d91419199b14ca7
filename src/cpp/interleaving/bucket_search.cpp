#include "interleaving/bucket_search.hpp"

#include <algorithm>
#include <cmath>

#include "interleaving/rounding_cuts.hpp"

namespace hivecore::interleaving {

namespace {

constexpr double kIntegral = 1e-6;
// Partitions that are better by less than this, relative, are not looked for.
constexpr double kPrecision = 1e-10;
constexpr int kRounds = 20;
constexpr int kCuts = 4;  // per round
// Cuts go on while a round closes this share of the gap.
constexpr double kWorthwhile = 0.02;
constexpr int kIdle = 3;  // rounds that do not

}  // namespace

BucketSearch::BucketSearch(const GroupKinds& kinds, const std::vector<int>& jobs,
                           const std::vector<int>& optional) {
    std::vector<int> row_of(kinds.types, -1);
    int total = 0;
    int required = 0;
    for (int t = 0; t < kinds.types; ++t) {
        if (jobs[t] > 0) {
            row_of[t] = static_cast<int>(right_.size());
            right_.push_back(jobs[t]);
            total += jobs[t];
            required += jobs[t] - optional[t];
        }
    }
    right_.push_back(0);
    const int rows = static_cast<int>(right_.size());
    int largest = 1;
    int smallest = total;
    for (int k = 0; k < kinds.kinds(); ++k) {
        double most = std::numeric_limits<double>::infinity();
        for (int i = kinds.start[k]; i < kinds.start[k + 1];) {
            const int type = kinds.member[i];
            int same = 0;
            for (; i < kinds.start[k + 1] && kinds.member[i] == type; ++i) {
                ++same;
            }
            most = std::min<double>(most, jobs[type] / same);
        }
        if (most > 0) {
            kind_.push_back(k);
            upper_.push_back(most);
            largest = std::max(largest, kinds.start[k + 1] - kinds.start[k]);
            smallest = std::min(smallest, kinds.start[k + 1] - kinds.start[k]);
        }
    }
    std::vector<int> skipped;  // per column of kind -1, its row
    for (int t = 0; t < kinds.types; ++t) {
        if (jobs[t] > 0 && optional[t] > 0) {
            kind_.push_back(-1);
            upper_.push_back(optional[t]);
            skipped.push_back(row_of[t]);
        }
    }
    const int grouping = static_cast<int>(kind_.size() - skipped.size());
    matrix_.rows = rows;
    matrix_.columns = static_cast<int>(kind_.size());
    matrix_.entries.assign(std::size_t(rows) * matrix_.columns, 0.0);
    for (int c = 0; c < matrix_.columns; ++c) {
        const int k = kind_[c];
        if (k < 0) {
            matrix_.row(skipped[c - grouping])[c] = 1.0;
            matrix_.value.push_back(0.0);
            continue;
        }
        for (int i = kinds.start[k]; i < kinds.start[k + 1]; ++i) {
            matrix_.row(row_of[kinds.member[i]])[c] += 1.0;
        }
        matrix_.row(rows - 1)[c] = 1.0;
        matrix_.value.push_back(kinds.value[k]);
    }
    fewest_ = (required + largest - 1) / largest;
    most_ = smallest > 0 ? total / smallest : 0;
}

BucketSearch::Root& BucketSearch::root(int groups) {
    const auto found = roots_.find(groups);
    if (found != roots_.end()) {
        return found->second;
    }
    std::vector<double> right(right_.begin(), right_.end());
    right.back() = groups;
    Root root{LpStatus::kGaveUp,
              BoxedSimplex(matrix_, right, std::vector<double>(upper_.size(), 0.0), upper_)};
    root.status = root.program.solve();
    pivots_ += root.program.pivots();
    return roots_.emplace(groups, std::move(root)).first->second;
}

// Depth first over programs in which some kinds have tighter bounds.
struct BucketSearch::Search {
    Matrix matrix;  // the kinds that can be in a better partition
    std::int64_t pivots = 0;

    // The column that is the furthest from a whole number, or -1.
    static int fractional(const BoxedSimplex& program, int columns) {
        int found = -1;
        double most = kIntegral;
        for (const int c : program.basis()) {
            if (c >= columns) {
                continue;
            }
            const double off = std::fabs(program.x(c) - std::round(program.x(c)));
            if (off > most + 1e-9 || (off > most - 1e-9 && found >= 0 && c < found)) {
                most = std::max(most, off);
                found = c;
            }
        }
        return found;
    }

    LpStatus solve(BoxedSimplex& program) {
        const std::int64_t before = program.pivots();
        const LpStatus status = program.solve();
        pivots += program.pivots() - before;
        return status;
    }
};

namespace {

// Whole numbers near x, if they satisfy the rows; their value.
bool rounded(const Matrix& matrix, int columns, const BoxedSimplex& program,
             const std::vector<int>& right, int groups, std::vector<int>& count, double& value) {
    const int rows = static_cast<int>(right.size());
    count.assign(columns, 0);
    std::vector<long> sum(rows, 0);
    value = 0.0;
    for (int c = 0; c < columns; ++c) {
        const double x = std::round(program.x(c));
        if (x == 0.0) {
            continue;
        }
        if (x < 0) {
            return false;
        }
        count[c] = static_cast<int>(x);
        value += x * matrix.value[c];
        for (int r = 0; r < rows; ++r) {
            sum[r] += static_cast<long>(x * matrix.row(r)[c]);
        }
    }
    for (int r = 0; r + 1 < rows; ++r) {
        if (sum[r] != right[r]) {
            return false;
        }
    }
    return sum[rows - 1] == groups;
}

std::vector<Multiplicity> listed(const std::vector<int>& count, const std::vector<int>& kind) {
    std::vector<Multiplicity> groups;
    for (std::size_t c = 0; c < count.size(); ++c) {
        if (count[c] > 0 && kind[c] >= 0) {
            groups.push_back({kind[c], count[c]});
        }
    }
    return groups;
}

}  // namespace

bool BucketSearch::relax(int groups, Tangent& tangent, bool& exact, Partition& partition) {
    Root& at = root(groups);
    exact = false;
    if (at.status == LpStatus::kInfeasible) {
        return false;
    }
    tangent.slope = at.program.price(matrix_.rows - 1);
    tangent.value = at.program.bound() - tangent.slope * groups;
    if (at.status == LpStatus::kOptimal && Search::fractional(at.program, matrix_.columns) < 0) {
        std::vector<int> count;
        double value;
        if (rounded(matrix_, matrix_.columns, at.program, right_, groups, count, value)) {
            const double bound = std::max(value, at.program.bound());
            if (bound - value <= kPrecision * std::max(std::fabs(value), std::fabs(bound))) {
                exact = true;
                partition.value = value;
                partition.bound = bound;
                partition.groups = listed(count, kind_);
            }
        }
    }
    return true;
}

Partition BucketSearch::solve(int groups, int nodes) {
    Root& at = root(groups);
    Partition best;
    if (at.status == LpStatus::kInfeasible) {
        best.bound = -BoxedSimplex::kInfinity;
        return best;
    }
    Search search;
    double heaviest = 0.0;
    for (const double value : matrix_.value) {
        heaviest = std::max(heaviest, std::fabs(value));
    }
    std::vector<int> count;
    double value;
    const auto offer = [&](const Matrix& matrix, int columns, const std::vector<int>& kind,
                           const BoxedSimplex& program) {
        if (!rounded(matrix, columns, program, right_, groups, count, value)) {
            return false;
        }
        if (value > best.value) {
            best.value = value;
            best.groups = listed(count, kind);
        }
        return true;
    };
    const auto better_than = [&]() {
        return best.value == -BoxedSimplex::kInfinity
                   ? best.value
                   : best.value + kPrecision * std::max(std::fabs(best.value), heaviest);
    };

    // A dive: the largest fraction is rounded up until all are whole.
    BoxedSimplex dive = at.program;
    LpStatus status = at.status;
    LpStatus status_of_root = at.status;
    for (int step = 0; step < 4 * matrix_.rows && status == LpStatus::kOptimal; ++step) {
        int up = -1;
        double most = kIntegral;
        for (const int c : dive.basis()) {
            if (c < matrix_.columns) {
                const double part = dive.x(c) - std::floor(dive.x(c));
                if (part > most && part < 1 - kIntegral) {
                    most = part;
                    up = c;
                }
            }
        }
        if (up < 0) {
            offer(matrix_, matrix_.columns, kind_, dive);
            break;
        }
        const double lower = dive.lower(up);
        dive.set_lower(up, std::ceil(dive.x(up)));
        const double floor = std::floor(dive.x(up));
        status = search.solve(dive);
        ++nodes_;
        if (status != LpStatus::kOptimal) {
            dive.set_lower(up, lower);
            dive.set_upper(up, floor);
            status = search.solve(dive);
        }
    }

    // Kinds that no better partition has are left out; cuts bring the bound down, round by round.
    double bound = at.program.bound();
    std::vector<int> kind(kind_);
    std::vector<int> whole_right(right_);
    whole_right.back() = groups;
    search.matrix = matrix_;
    BoxedSimplex first = at.program;
    first.look_at(search.matrix);
    int columns = matrix_.columns;  // without slacks
    int idle = 0;
    for (int round = 0;; ++round) {
        std::vector<Cut> cuts;
        if (bound > better_than() && round < kRounds && status_of_root == LpStatus::kOptimal) {
            cuts = rounding_cuts(search.matrix, columns, whole_right, first, kCuts);
        }
        // Columns and rows that go on: a cut whose slack is in the basis binds nothing.
        const Matrix old = search.matrix;
        const int old_columns = columns;
        std::vector<int> number(old.columns + old.rows + 1, -1);
        std::vector<int> kept;
        const double enough = better_than();
        for (int c = 0; c < old_columns; ++c) {
            if (first.basic(c) || first.gain(c) >= 0 || bound + first.gain(c) > enough) {
                number[c] = static_cast<int>(kept.size());
                kept.push_back(c);
            }
        }
        columns = static_cast<int>(kept.size());
        std::vector<int> rows;
        for (int r = 0; r < old.rows; ++r) {
            if (r < matrix_.rows || !first.basic(old_columns + r - matrix_.rows)) {
                rows.push_back(r);
            }
        }
        const int slacks = static_cast<int>(rows.size()) - matrix_.rows;
        Matrix& now = search.matrix;
        now.rows = static_cast<int>(rows.size() + cuts.size());
        now.columns = columns + slacks + static_cast<int>(cuts.size());
        now.entries.assign(std::size_t(now.rows) * now.columns, 0.0);
        now.value.assign(now.columns, 0.0);
        std::vector<int> next_right;
        std::vector<int> next_kind;
        std::vector<double> lower(now.columns, 0.0);
        std::vector<double> upper(now.columns, 0.0);
        for (int i = 0; i < columns; ++i) {
            now.value[i] = old.value[kept[i]];
            next_kind.push_back(kind[kept[i]]);
            lower[i] = first.lower(kept[i]);
            upper[i] = first.upper(kept[i]);
        }
        for (std::size_t r = 0; r < rows.size(); ++r) {
            next_right.push_back(whole_right[rows[r]]);
            for (int i = 0; i < columns; ++i) {
                now.row(static_cast<int>(r))[i] = old.row(rows[r])[kept[i]];
            }
        }
        for (const Cut& cut : cuts) {
            const int r = static_cast<int>(next_right.size());
            next_right.push_back(cut.right);
            for (int i = 0; i < columns; ++i) {
                now.row(r)[i] = cut.entries[kept[i]];
            }
        }
        for (int r = matrix_.rows; r < now.rows; ++r) {
            const int slack = columns + r - matrix_.rows;
            now.row(r)[slack] = 1.0;
            upper[slack] = next_right[r];
        }
        for (std::size_t r = 0; r < rows.size(); ++r) {
            number[old.columns + rows[r]] = now.columns + static_cast<int>(r);
            if (rows[r] >= matrix_.rows) {
                number[old_columns + rows[r] - matrix_.rows] =
                    columns + static_cast<int>(r) - matrix_.rows;
            }
        }
        std::vector<int> basis;
        for (const int c : first.basis()) {
            if (number[c] >= 0) {
                basis.push_back(number[c]);
            }
        }
        for (std::size_t i = 0; i < cuts.size(); ++i) {
            basis.push_back(columns + slacks + static_cast<int>(i));
        }
        whole_right = next_right;
        kind = next_kind;
        BoxedSimplex next(now, std::vector<double>(next_right.begin(), next_right.end()), lower,
                          upper);
        next.start_from(basis);
        first = std::move(next);
        if (cuts.empty()) {
            break;
        }
        ++nodes_;
        status = search.solve(first);
        if (status == LpStatus::kInfeasible) {
            best.bound = best.value;
            return best;
        }
        const double before = bound;
        bound = std::min(bound, first.bound());
        if (bound <= better_than()) {
            best.bound = best.value;
            return best;
        }
        idle = before - bound < kWorthwhile * (before - best.value) ? idle + 1 : 0;
        if (status != LpStatus::kOptimal || Search::fractional(first, columns) < 0 ||
            idle == kIdle) {
            status_of_root = LpStatus::kGaveUp;  // no more cuts
        }
    }

    struct Node {
        BoxedSimplex program;
        double bound;
    };
    std::vector<Node> open;
    open.push_back({std::move(first), bound});
    double unsearched = -BoxedSimplex::kInfinity;
    for (int done = 0; !open.empty(); ++done) {
        Node node = std::move(open.back());
        open.pop_back();
        if (node.bound <= better_than()) {
            continue;
        }
        if (done >= nodes) {
            unsearched = std::max(unsearched, node.bound);
            continue;
        }
        ++nodes_;
        BoxedSimplex& program = node.program;
        status = search.solve(program);
        if (status == LpStatus::kInfeasible) {
            continue;
        }
        node.bound = std::min(node.bound, program.bound());
        if (node.bound <= better_than()) {
            continue;
        }
        if (status == LpStatus::kGaveUp) {
            unsearched = std::max(unsearched, node.bound);
            continue;
        }
        const int split = Search::fractional(program, columns);
        if (split < 0) {
            if (!offer(search.matrix, columns, kind, program)) {
                unsearched = std::max(unsearched, node.bound);
            } else if (node.bound > better_than()) {
                unsearched = std::max(unsearched, node.bound);
            }
            continue;
        }
        const double gap = node.bound - best.value;
        if (gap < BoxedSimplex::kInfinity) {
            for (int c = 0; c < columns; ++c) {
                const double gain = program.gain(c);
                if (program.basic(c) || program.upper(c) == program.lower(c) || gain == 0.0) {
                    continue;
                }
                const double steps = std::floor(gap / std::fabs(gain) + 1e-9);
                if (program.lower(c) + steps < program.upper(c)) {
                    if (gain < 0) {
                        program.set_upper(c, program.lower(c) + steps);
                    } else {
                        program.set_lower(c, program.upper(c) - steps);
                    }
                }
            }
        }
        const double x = program.x(split);
        Node down = node;
        down.program.set_upper(split, std::floor(x));
        node.program.set_lower(split, std::floor(x) + 1);
        const bool up_first = x - std::floor(x) >= 0.3;
        if (up_first) {
            open.push_back(std::move(down));
            open.push_back(std::move(node));
        } else {
            open.push_back(std::move(node));
            open.push_back(std::move(down));
        }
    }
    pivots_ += search.pivots;
    best.bound = std::max(best.value, unsearched);
    return best;
}

}  // namespace hivecore::interleaving
