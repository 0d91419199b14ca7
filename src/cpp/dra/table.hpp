// The table of a block: what its devices can serve at the same time.
#pragma once

#include <string>
#include <vector>

#include "dra/packing.hpp"

namespace hivecore::dra {

// A block as text, names and numbers aside: equal texts, equal tables.
std::string describe_block(const Problem& problem, const Grants& grants,
                           const std::vector<Index>& same, const std::vector<Index>& devices,
                           const std::vector<Demand>& demands, const std::vector<Index>& chosen);

// The lines that no other line contains, those with the most devices first.
std::vector<Packing::Line> make_table(const Problem& problem, Grants& grants, Work& work,
                                      const std::vector<Index>& devices,
                                      const std::vector<Demand>& demands,
                                      const std::vector<Index>& chosen);

}  // namespace hivecore::dra
