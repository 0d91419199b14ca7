#include "interleaving/exact/bucket_program.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "interleaving/exact/precision.hpp"

namespace hivecore::interleaving {
namespace {

// How many groups of a kind there are jobs for.
int most_of(const GroupKinds& kinds, int kind, const std::vector<int>& jobs) {
    int most = std::numeric_limits<int>::max();
    int same = 0;
    for (int i = kinds.start[kind]; i < kinds.start[kind + 1]; ++i) {
        const bool is_first = i == kinds.start[kind] || kinds.member[i] != kinds.member[i - 1];
        same = is_first ? 1 : same + 1;
        most = std::min(most, jobs[kinds.member[i]] / same);
    }
    return most;
}

}  // namespace

// --- a program and its solutions ----------------------------------------------------------------

BucketProgram program_of(const GroupKinds& kinds, const std::vector<int>& jobs,
                         const std::vector<int>& optional, std::vector<double>& upper) {
    BucketProgram program;
    std::vector<int> row_of(kinds.types, -1);
    for (int type = 0; type < kinds.types; ++type) {
        if (jobs[type] > 0) {
            row_of[type] = static_cast<int>(program.right.size());
            program.right.push_back(jobs[type]);
        }
    }
    program.right.push_back(0);
    const int groups_row = static_cast<int>(program.right.size()) - 1;

    upper.clear();
    for (int kind = 0; kind < kinds.kinds(); ++kind) {
        if (const int most = most_of(kinds, kind, jobs)) {
            program.kind.push_back(kind);
            upper.push_back(most);
        }
    }
    const int grouping = program.columns();
    std::vector<int> waiting;  // types
    for (int type = 0; type < kinds.types; ++type) {
        if (jobs[type] > 0 && optional[type] > 0) {
            waiting.push_back(type);
            program.kind.push_back(BucketProgram::kNoGroup);
            upper.push_back(optional[type]);
        }
    }

    Equations matrix(groups_row + 1, program.columns());
    for (int c = 0; c < grouping; ++c) {
        const int kind = program.kind[c];
        for (int i = kinds.start[kind]; i < kinds.start[kind + 1]; ++i) {
            matrix.row(row_of[kinds.member[i]])[c] += 1.0;
        }
        matrix.row(groups_row)[c] = 1.0;
        matrix.value[c] = kinds.value[kind];
    }
    for (int c = grouping; c < program.columns(); ++c) {
        matrix.row(row_of[waiting[c - grouping]])[c] = 1.0;
    }
    program.matrix = std::make_shared<const Equations>(std::move(matrix));
    return program;
}

int BucketProgram::most_fractional(const BoxedSimplex& solved) const {
    int best = -1;
    double most = kIntegral;
    for (const int c : solved.basis()) {
        if (c >= columns()) {
            continue;
        }
        const double off = std::fabs(solved.x(c) - std::round(solved.x(c)));
        if (off > most + 1e-9 || (off > most - 1e-9 && best >= 0 && c < best)) {
            most = std::max(most, off);
            best = c;
        }
    }
    return best;
}

std::optional<Partition> BucketProgram::rounded(const BoxedSimplex& solved) const {
    Partition partition;
    partition.value = 0.0;
    std::vector<std::int64_t> sum(first_cut(), 0);
    for (int c = 0; c < columns(); ++c) {
        const double x = std::round(solved.x(c));
        if (x == 0.0) {
            continue;
        }
        if (x < 0) {
            return std::nullopt;
        }
        partition.value += x * matrix->value[c];
        if (kind[c] != kNoGroup) {
            partition.groups.push_back({kind[c], static_cast<int>(x)});
        }
        for (int r = 0; r < first_cut(); ++r) {
            sum[r] += static_cast<std::int64_t>(x * matrix->row(r)[c]);
        }
    }
    if (!std::equal(sum.begin(), sum.end(), right.begin())) {
        return std::nullopt;
    }
    return partition;
}

// --- smaller ones -------------------------------------------------------------------------------

namespace {

// Which rows and columns go on, under which numbers.
class Reduction {
  public:
    Reduction(const BucketProgram& program, const BoxedSimplex& simplex, double bound,
              double enough)
        : program_(program), simplex_(simplex) {
        for (int c = 0; c < program.columns(); ++c) {
            const double gain = simplex.gain(c);
            if (simplex.is_basic(c) || gain >= 0 || bound + gain > enough) {
                columns_.push_back(c);
            }
        }
        for (int r = 0; r < program.matrix->rows; ++r) {
            // A cut whose slack is in the basis does not bind.
            if (r < program.first_cut() || !simplex.is_basic(program.slack_of(r))) {
                rows_.push_back(r);
            }
        }
    }

    BucketProgram apply(const std::vector<Cut>& cuts) const {
        BucketProgram smaller;
        const Equations& from = *program_.matrix;
        const auto old_rows = static_cast<int>(rows_.size());
        smaller.cuts = old_rows - program_.first_cut() + static_cast<int>(cuts.size());
        const auto columns = static_cast<int>(columns_.size());
        Equations to(program_.first_cut() + smaller.cuts, columns + smaller.cuts);
        for (int i = 0; i < columns; ++i) {
            to.value[i] = from.value[columns_[i]];
            smaller.kind.push_back(program_.kind[columns_[i]]);
        }
        for (int r = 0; r < old_rows; ++r) {
            smaller.right.push_back(program_.right[rows_[r]]);
            pick(from.row(rows_[r]), to.row(r));
        }
        for (std::size_t i = 0; i < cuts.size(); ++i) {
            smaller.right.push_back(cuts[i].right);
            pick(cuts[i].entries.data(), to.row(old_rows + static_cast<int>(i)));
        }
        for (int i = 0; i < smaller.cuts; ++i) {
            to.row(program_.first_cut() + i)[columns + i] = 1.0;
        }
        smaller.matrix = std::make_shared<const Equations>(std::move(to));
        return smaller;
    }

    // With the same basis, and the slacks of the new cuts.
    BoxedSimplex apply(const BucketProgram& smaller) const {
        std::vector<double> lower(smaller.matrix->columns, 0.0);
        std::vector<double> upper(smaller.matrix->columns, 0.0);
        for (std::size_t i = 0; i < columns_.size(); ++i) {
            lower[i] = simplex_.lower(columns_[i]);
            upper[i] = simplex_.upper(columns_[i]);
        }
        for (int r = smaller.first_cut(); r < smaller.matrix->rows; ++r) {
            upper[smaller.slack_of(r)] = smaller.right[r];
        }
        BoxedSimplex simplex(smaller.matrix, smaller.right, std::move(lower), std::move(upper));
        simplex.start_from(basis_of(smaller));
        return simplex;
    }

  private:
    template <class Entry>
    void pick(const Entry* from, double* to) const {
        for (std::size_t i = 0; i < columns_.size(); ++i) {
            to[i] = from[columns_[i]];
        }
    }

    std::vector<int> basis_of(const BucketProgram& smaller) const {
        constexpr int kGone = -1;
        const Matrix& from = *program_.matrix;
        std::vector<int> number(from.columns + from.rows, kGone);
        for (std::size_t i = 0; i < columns_.size(); ++i) {
            number[columns_[i]] = static_cast<int>(i);
        }
        for (int r = 0; r < static_cast<int>(rows_.size()); ++r) {
            number[from.columns + rows_[r]] = smaller.matrix->columns + r;
            if (r >= program_.first_cut()) {
                number[program_.slack_of(rows_[r])] = smaller.slack_of(r);
            }
        }
        std::vector<int> basis;
        for (const int c : simplex_.basis()) {
            if (number[c] != kGone) {
                basis.push_back(number[c]);
            }
        }
        for (int r = static_cast<int>(rows_.size()); r < smaller.matrix->rows; ++r) {
            basis.push_back(smaller.slack_of(r));
        }
        return basis;
    }

    const BucketProgram& program_;
    const BoxedSimplex& simplex_;
    std::vector<int> columns_;  // kept
    std::vector<int> rows_;
};

}  // namespace

void reduce(BucketProgram& program, BoxedSimplex& simplex, const std::vector<Cut>& cuts,
            double bound, double enough) {
    const Reduction reduction(program, simplex, bound, enough);
    BucketProgram smaller = reduction.apply(cuts);
    BoxedSimplex solver = reduction.apply(smaller);
    program = std::move(smaller);
    simplex = std::move(solver);
}

}  // namespace hivecore::interleaving
