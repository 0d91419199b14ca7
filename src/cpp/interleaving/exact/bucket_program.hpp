// How many groups of each kind a bucket has: an integer program, and smaller forms of it.
//
// Jobs of one type are interchangeable, so a partition is a multiplicity per kind of group.
//
//     columns   kinds of groups | types of jobs, whose jobs are in no group | slacks of cuts
//     rows      types of jobs, the number of groups | cuts
//
// All rows are equations of whole numbers >= 0, and a slack is whole where the others are.
// Source of the formulation: Gilmore and Gomory (1961).
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "interleaving/exact/boxed_simplex.hpp"
#include "interleaving/exact/rounding_cuts.hpp"

namespace hivecore::interleaving {

// What a bucket's groups can be.
struct GroupKinds {
    int types = 0;              // of jobs
    std::vector<int> start{0};  // per kind, where its members begin; one more at the end
    std::vector<int> member;    // types, ascending, as often as the kind has jobs of the type
    std::vector<double> value;  // per kind

    int kinds() const { return static_cast<int>(value.size()); }
    int size(int kind) const { return start[kind + 1] - start[kind]; }
};

struct Multiplicity {
    int kind;
    int count;
};

// A partition into a given number of groups.
struct Partition {
    double value = -std::numeric_limits<double>::infinity();  // of the best that was found
    double bound = std::numeric_limits<double>::infinity();   // none is worth more
    std::vector<Multiplicity> groups;
};

struct BucketProgram {
    static constexpr int kNoGroup = -1;

    std::shared_ptr<const Equations> matrix;
    std::vector<int> right;  // per row
    std::vector<int> kind;   // per column but the slacks
    int cuts = 0;

    int columns() const { return static_cast<int>(kind.size()); }  // without slacks
    int first_cut() const { return matrix->rows - cuts; }          // row
    int slack_of(int cut_row) const { return columns() + cut_row - first_cut(); }

    // Of these columns the one that is the furthest from a whole number, or -1.
    int most_fractional(const BoxedSimplex& solved) const;

    // The whole numbers nearest to a solution, if they are a partition; its bound is not set.
    std::optional<Partition> rounded(const BoxedSimplex& solved) const;
};

// Of each type so many jobs, of which `optional` may be in no group. The right side of the last
// row, the number of groups, is 0. `upper` gets the bounds of the columns.
BucketProgram program_of(const GroupKinds& kinds, const std::vector<int>& jobs,
                         const std::vector<int>& optional, std::vector<double>& upper);

// The program with more cuts and without those that do not bind, and of the columns only those
// whose gain, added to the bound, is more than `enough`. `simplex` is solved, and then stands at
// the same solution of the smaller program.
void reduce(BucketProgram& program, BoxedSimplex& simplex, const std::vector<Cut>& cuts,
            double bound, double enough);

}  // namespace hivecore::interleaving
