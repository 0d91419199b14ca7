#include "matching/numbers/rows.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace hivecore::matching {
namespace {

constexpr std::int64_t kMaxEdges = std::int64_t{1} << 30;

struct Entry {
    std::int32_t row;
    std::int32_t edge;
};

std::int64_t length(const Numbers& list) {
    return std::visit([](const auto& numbers) { return numbers.rows; }, list);
}

// The list, -1 for an invalid vertex.
std::vector<std::int32_t> vertices(const Numbers& list, std::int64_t n) {
    return std::visit(
        [n]<class T>(const Strided<T>& numbers) -> std::vector<std::int32_t> {
            if constexpr (std::is_floating_point_v<T>) {
                throw std::invalid_argument("u and v must hold integers");
            } else {
                std::vector<std::int32_t> read(numbers.rows);
                for (std::int64_t i = 0; i < numbers.rows; ++i) {
                    const T v = numbers.at(i);
                    const bool known = std::cmp_greater_equal(v, 0) && std::cmp_less(v, n);
                    read[i] = known ? static_cast<std::int32_t>(v) : -1;
                }
                return read;
            }
        },
        list);
}

}  // namespace

Rows rows_of(std::int64_t n, const Numbers& u_list, const Numbers& v_list) {
    const std::int64_t m = length(u_list);
    if (n < 0 || n >= std::int64_t{1} << 31 || m > kMaxEdges || length(v_list) != m) {
        throw std::invalid_argument("n or the lengths of u and v are out of range");
    }
    const std::vector<std::int32_t> u = vertices(u_list, n);
    const std::vector<std::int32_t> v = vertices(v_list, n);
    Rows rows;
    rows.offsets.assign(n + 1, 0);
    for (std::int64_t e = 0; e < m; ++e) {
        if (u[e] < 0 || v[e] < 0) {
            rows.outside = e;
            return rows;
        }
        rows.loop = u[e] == v[e] && rows.loop < 0 ? e : rows.loop;
        ++rows.offsets[u[e] + 1];
        ++rows.offsets[v[e] + 1];
    }
    if (rows.loop >= 0) {
        return rows;
    }
    std::partial_sum(rows.offsets.begin(), rows.offsets.end(), rows.offsets.begin());

    // As many entries have a vertex for their neighbour as for their row: the same offsets serve.
    std::vector<Entry> by_neighbour(2 * m);
    std::vector<std::int64_t> place(rows.offsets.begin(), rows.offsets.end() - 1);
    for (std::int64_t e = 0; e < m; ++e) {
        by_neighbour[place[v[e]]++] = {u[e], static_cast<std::int32_t>(e)};
        by_neighbour[place[u[e]]++] = {v[e], static_cast<std::int32_t>(e)};
    }
    place.assign(rows.offsets.begin(), rows.offsets.end() - 1);
    rows.neighbours.resize(2 * m);
    rows.edges.resize(2 * m);
    for (std::int32_t neighbour = 0; neighbour < n; ++neighbour) {
        for (auto i = rows.offsets[neighbour]; i < rows.offsets[neighbour + 1]; ++i) {
            const std::int64_t to = place[by_neighbour[i].row]++;
            rows.neighbours[to] = neighbour;
            rows.edges[to] = by_neighbour[i].edge;
        }
    }
    for (std::int64_t row = 0; row < n; ++row) {
        for (auto i = rows.offsets[row] + 1; i < rows.offsets[row + 1]; ++i) {
            if (rows.neighbours[i] == rows.neighbours[i - 1]) {
                rows.repeated = i;
                return rows;
            }
        }
    }
    return rows;
}

void combine_parallel(Rows& rows, const Numbers& weights, bool lightest) {
    std::visit(
        [&](const auto& given) {
            std::int64_t kept = 0;
            std::int64_t first = 0;
            for (std::size_t row = 0; row + 1 < rows.offsets.size(); ++row) {
                const std::int64_t start = kept;
                const std::int64_t end = rows.offsets[row + 1];
                for (std::int64_t i = first; i < end; ++i) {
                    if (kept == start || rows.neighbours[kept - 1] != rows.neighbours[i]) {
                        rows.neighbours[kept] = rows.neighbours[i];
                        rows.edges[kept++] = rows.edges[i];
                        continue;
                    }
                    const auto weight = given.at(rows.edges[i]);
                    const auto best = given.at(rows.edges[kept - 1]);
                    if (lightest ? weight < best : weight > best) {
                        rows.edges[kept - 1] = rows.edges[i];
                    }
                }
                first = end;
                rows.offsets[row + 1] = kept;
            }
            rows.neighbours.resize(kept);
            rows.edges.resize(kept);
            rows.repeated = -1;
        },
        weights);
}

std::vector<std::int64_t> entries_of(std::span<const std::int64_t> offsets,
                                     std::span<const std::int32_t> neighbours,
                                     std::span<const std::int64_t> u,
                                     std::span<const std::int64_t> v) {
    const auto rows = static_cast<std::int64_t>(offsets.size()) - 1;
    const auto size = static_cast<std::int64_t>(neighbours.size());
    std::vector<std::int64_t> entries(u.size());
    for (std::size_t i = 0; i < u.size(); ++i) {
        if (u[i] < 0 || u[i] >= rows || offsets[u[i]] < 0 || offsets[u[i]] > offsets[u[i] + 1] ||
            offsets[u[i] + 1] > size) {
            throw std::invalid_argument("u holds an invalid row");
        }
        const auto first = neighbours.begin() + offsets[u[i]];
        const auto last = neighbours.begin() + offsets[u[i] + 1];
        const auto entry = std::lower_bound(first, last, v[i]);
        if (entry == last || *entry != v[i]) {
            throw std::invalid_argument("u and v hold a pair that is no edge");
        }
        entries[i] = entry - neighbours.begin();
    }
    return entries;
}

}  // namespace hivecore::matching
