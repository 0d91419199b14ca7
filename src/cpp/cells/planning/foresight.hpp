// Where all unbound units of a tenant could be at once, for gangs that the usual way cannot place.
//
// The usual choice takes an unbound unit for a whole one and finds it a physical cell afterwards.
// Where bad leaves, excluded nodes, or leaves that are not to be taken leave no whole cells, it has
// to know what each unit would have. Below a bound cell there are as many unbound virtual cells as
// physical ones, and it does not matter which is bound to which: any pairing shows what there is.
//
// Unbound roots are paired with free cells, as far as these split off safely: at first with those
// that have most, then in all other ways, up to a limit. Cells are of one kind if a symmetry of the
// chain maps one to the other; of a kind only the first is tried. In chains of more than 64 nodes
// only the first pairing is looked at. Roots are bound to their cells while it looks, and unbound
// again.
//
// Cost of one look: O(roots * cells of their level + units * levels), in chains of up to 64 nodes
// O(roots * cells * log); once O(leaves of the chain).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "cells/planning/unit_choice.hpp"
#include "cells/virtual_cells.hpp"

namespace hivecore::cells {

class Foresight {
  public:
    // For what the unit_choice, which is started for this task, may use.
    void start(VirtualCells& virtual_cells, const UnitChoice& unit_choice, const Task& task);
    // The next sight; false: that was all, or all that may be tried.
    bool look();
    bool was_cut_short() const { return was_cut_short_; }
    // After a look that was interrupted: no root is bound any more.
    void unbind();
    // The physical cell of a unit, kNoCell: it can have none.
    CellIndex cell(std::int32_t pool, CellIndex unit) const {
        return cells_[static_cast<std::size_t>(pool)][unit];
    }

  private:
    struct Offer {
        std::int64_t pods;
        std::int64_t leaves;
        int from;  // the level of the listed cell around it
        CellIndex cell;
    };
    // A root and the cells that it is paired with in turn; at last it is left out, and with it the
    // rest of its pool.
    struct Pairing {
        std::size_t root;
        std::vector<Offer> offers;
        std::size_t next = 0;
        bool is_left_out = false;
    };

    bool is_large() const;
    void bind(const Pairing& pairing);
    void unbind_last();
    static bool is_bound(const Pairing& pairing) {
        return !pairing.is_left_out && pairing.next != 0;
    }
    bool descend(std::size_t root);
    bool next_path();
    std::size_t following(const Pairing& pairing) const;
    std::vector<Offer> offers(std::int32_t pool);
    void find_kinds();
    void pair(std::int32_t pool, int level, CellIndex index, CellIndex cell);
    void count_usable();
    CellIndex usable(int level, CellIndex cell) const {
        return usable_[static_cast<std::size_t>(level)][cell];
    }
    bool better(int level, const Offer& a, const Offer& b) const;

    VirtualCells* virtual_cells_ = nullptr;
    const UnitChoice* unit_choice_ = nullptr;
    const PhysicalCells* physical_ = nullptr;
    Task task_;
    int lowest_ = 0;                              // the smallest cells that are distinguished
    std::vector<std::vector<CellIndex>> usable_;  // by level and cell
    std::vector<std::vector<CellIndex>> cells_;   // by pool and unit
    std::vector<std::int32_t> roots_;             // the pool of each that may be paired
    std::vector<Pairing> path_;
    std::vector<std::pair<std::int32_t, CellIndex>> bound_;  // (pool, root)
    std::set<std::vector<std::uint64_t>> seen_;  // roots passed, then the cells that are bound
    std::map<std::vector<std::uint32_t>, std::uint32_t> kinds_;
    std::vector<std::vector<std::uint32_t>> kind_;  // by level and cell
    int sights_ = 0;
    bool was_cut_short_ = false;
};

}  // namespace hivecore::cells
