// Times Boost's maximum-weight matching on one graph: see driver.hpp. Compiles with the rewritten
// algorithm alone (J. van Rantwijk, 2025): the one before takes no map of weights, and is slow.
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/maximum_weighted_matching.hpp>
#include <boost/version.hpp>
#include <vector>

#include "driver.hpp"

int main() {
    using Weighted = boost::property<boost::edge_weight_t, long long>;
    using Adjacency =
        boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS, boost::no_property, Weighted>;
    using Vertex = boost::graph_traits<Adjacency>::vertex_descriptor;
    const Graph given = read_graph();
    Adjacency graph(given.size[0]);
    for (const auto& [u, v, w] : given.rows) {
        boost::add_edge(u, v, Weighted(w), graph);
    }
    const auto weights = boost::get(boost::edge_weight, graph);
    const auto index = boost::get(boost::vertex_index, graph);
    measure(
        BOOST_LIB_VERSION, [&] { return std::vector<Vertex>(given.size[0]); },
        [&](auto& mates) {
            boost::maximum_weighted_matching(
                graph, boost::make_iterator_property_map(mates.begin(), index), index, weights);
        },
        [&](auto& mates) {
            return boost::matching_weight_sum(
                graph, boost::make_iterator_property_map(mates.begin(), index), index);
        });
}
