// Between solutions the searches' state stays: duals, pairs and blossoms.
//
// Where all vertices that have edges are matched but one, that one need not sink to dual 0, which
// would take a search through the whole graph: it is enough that no other has a lower dual. All of
// them together are then one more blossom, odd and full, whose dual is twice that lowest one, and
// theirs are as much lower. Only the certificate says so; the state keeps the duals as they are, so
// that the next vertex that comes or leaves finds them as it would in a graph of even order.

#include "matching/matcher.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <vector>

#include "matching/deadline.hpp"
#include "matching/dense/dense.hpp"
#include "matching/dense/matrix.hpp"
#include "matching/dense/row_kernels.hpp"
#include "matching/dense/start.hpp"
#include "matching/numbers/scale.hpp"
#include "matching/order.hpp"

namespace hivecore::matching {
namespace {

// Searches are given up once they have passed over this many rows.
template <class T>
struct PassLimit {
    const Dense<T>& engine;
    std::int64_t passes;

    bool has_passed() const { return engine.passes() > passes; }
};

// Makes one blossom of the free vertex with a dual above 0, if there is one, and the matched ones.
void enclose(Matching& matching) {
    std::int64_t lowest = 0;
    for (std::size_t v = 0; v < matching.mate.size(); ++v) {
        lowest = matching.mate[v] < 0 ? std::max(lowest, matching.duals[v]) : lowest;
    }
    if (lowest == 0) {
        return;
    }
    for (std::size_t v = 0; v < matching.mate.size(); ++v) {
        if (matching.duals[v] > 0) {
            matching.duals[v] -= lowest;
            ++matching.innermost[v];
        }
    }
    for (std::int64_t& parent : matching.parents) {
        ++parent;
    }
    matching.parents.insert(matching.parents.begin(), -1);
    matching.blossom_duals.insert(matching.blossom_duals.begin(), 2 * lowest);
}

template <class T>
class DenseMatcher final : public Matcher {
  public:
    DenseMatcher(Node capacity, Node n, std::span<const std::int64_t> weights)
        : n_(capacity),
          matrix_(capacity),
          changed_(capacity),
          has_edges_(capacity, true),
          credit_(kFromScratch * capacity),
          kernels_(row_kernels<T>()) {
        for (Node u = 0; u < n_; ++u) {
            T* row = matrix_.row(u);
            std::fill(row, row + n_, Matrix<T>::kAbsent);
            for (Node v = 0; u < n && v < n; ++v) {
                row[v] = u == v ? row[v] : doubled(weights[static_cast<std::size_t>(u) * n + v]);
            }
        }
    }

    void set_row(Node v, std::span<const std::int64_t> weights) override {
        check(*std::max_element(weights.begin(), weights.end()));
        change(v);
        for (Node u = 0; u < static_cast<Node>(weights.size()); ++u) {
            if (u != v) {
                write(v, u, doubled(weights[u]));
            }
        }
    }

    void set_edge(Node u, Node v, std::int64_t weight) override {
        check(weight);
        if (matters(u, v, doubled(weight))) {
            change(v);
        }
        write(u, v, doubled(weight));
    }

    Matching solve() override {
        return or_start_over([&] { return search_again(); });
    }

    std::int64_t heaviest() const override { return Matrix<T>::kHeaviest; }
    std::int64_t passes() const override { return earlier_ + (search_ ? engine_->passes() : 0); }

  private:
    static constexpr Node kManyFree = 3;              // one vertex in so many
    static constexpr std::int64_t kFromScratch = 10;  // passes per vertex; it takes 5 to 30

    // What is interrupted by lack of memory leaves nothing behind that is relied on.
    template <class Work>
    auto or_start_over(Work work) {
        try {
            return work();
        } catch (...) {
            search_.reset();
            throw;
        }
    }

    Matching search_again() {
        if (!search_ || !update()) {
            start_over();
        }
        std::fill(changed_.begin(), changed_.end(), false);
        changes_.clear();
        Matching matching = search_->result();
        search_->rejoin();
        enclose(matching);
        return matching;
    }

    static void check(std::int64_t weight) {
        if (weight > Matrix<T>::kHeaviest) {
            throw std::invalid_argument("a weight is above " +
                                        std::to_string(Matrix<T>::kHeaviest));
        }
    }

    static T doubled(std::int64_t weight) {
        return weight > 0 ? static_cast<T>(2 * weight) : Matrix<T>::kAbsent;
    }

    void change(Node v) {
        if (search_ && !changed_[v]) {
            or_start_over([&] {
                changes_.push_back(v);
                search_->release(v);
            });
            changed_[v] = true;
        }
    }

    void write(Node u, Node v, T weight) {
        matrix_.row(u)[v] = matrix_.row(v)[u] = weight;
        if (weight > 0) {
            has_edges_[u] = has_edges_[v] = true;
        }
    }

    // Whether an edge gets or had a part in the proof beyond having slack.
    bool matters(Node u, Node v, T weight) const {
        if (!search_ || changed_[u] || changed_[v] || matrix_.row(u)[v] == weight) {
            return false;
        }
        return search_->outer(u) == search_->outer(v) || search_->are_matched(u, v) ||
               search_->shifted_dual(u) + search_->shifted_dual(v) < weight;
    }

    void start_over() {
        earlier_ = passes();
        search_.reset();
        engine_.emplace(matrix_);
        search_.emplace(n_, *engine_);
        Deadline never;
        start(matrix_, *search_, never);
        search_from(spread_order(n_), never);
    }

    // False if starting over is probably cheaper. Searches are made on credit: every solution adds
    // a tenth of what one from scratch takes, and searches that succeed what they save. So all of
    // them together take at most a tenth more than as many from scratch.
    bool update() {
        fit_duals();
        const std::vector<Node> roots = free_vertices();
        const std::int64_t scratch = kFromScratch * n_;
        credit_ = std::min(credit_ + scratch / 10, scratch);
        if (roots.size() > static_cast<std::size_t>(n_ / kManyFree) || credit_ < scratch / 2) {
            return false;
        }
        const std::int64_t before = engine_->passes();
        PassLimit<T> limit{*engine_, before + credit_};
        search_from(roots, limit);
        const bool is_complete = !limit.has_passed();
        credit_ += (is_complete ? scratch : 0) - (engine_->passes() - before);
        return is_complete;
    }

    // Makes the duals of changed vertices feasible and those of free ones no higher than needed.
    void fit_duals() {
        y_.resize(n_);
        for (Node v = 0; v < n_; ++v) {
            y_[v] = search_->shifted_dual(v);
        }
        for (const Node v : changes_) {
            set_lowest_dual(v);
        }
        for (const Node v : free_vertices()) {
            if (search_->outer(v) == v) {
                set_lowest_dual(v);
            }
        }
    }

    // Those with a dual above 0, from which searches have to start.
    std::vector<Node> free_vertices() const {
        std::vector<Node> free;
        for (Node v = 0; v < n_; ++v) {
            if (search_->is_free(v) && search_->shifted_dual(v) > 0) {
                free.push_back(v);
            }
        }
        return free;
    }

    template <class Limit>
    void search_from(const std::vector<Node>& roots, Limit& limit) {
        search_->run(roots, limit, [this](Node root) { return floor_for(root); });
    }

    // The lowest dual of all vertices with edges, if they are matched but for this one; else 0.
    T floor_for(Node root) {
        T lowest = search_->shifted_dual(root);
        for (Node v = 0; v < n_; ++v) {
            if (v == root) {
                continue;
            }
            if (!search_->is_free(v)) {
                lowest = std::min(lowest, search_->shifted_dual(v));
            } else if (has_edges(v)) {
                return 0;
            }
        }
        return lowest;
    }

    bool has_edges(Node v) {
        has_edges_[v] = has_edges_[v] && kernels_.heaviest(matrix_.row(v), n_) > 0;
        return has_edges_[v];
    }

    void set_lowest_dual(Node v) {
        y_[v] = std::max<T>(0, kernels_.largest_gap(matrix_.row(v), y_.data(), n_));
        search_->set_dual(v, y_[v]);
    }

    Node n_;
    Matrix<T> matrix_;
    std::optional<Dense<T>> engine_;
    std::optional<Search<Dense<T>>> search_;
    std::vector<bool> changed_;
    std::vector<bool> has_edges_;  // some may say so that have lost them
    std::vector<Node> changes_;
    std::vector<T> y_;
    std::int64_t credit_;       // passes over rows
    std::int64_t earlier_ = 0;  // passes of engines before this one
    RowKernels<T> kernels_;
};

}  // namespace

std::unique_ptr<Matcher> make_matcher(Node capacity, Node n,
                                      std::span<const std::int64_t> weights) {
    std::int64_t heaviest = 0;
    for (Node u = 0; u < n; ++u) {
        for (Node v = 0; v < n; ++v) {
            heaviest = u == v ? heaviest
                              : std::max(heaviest, weights[static_cast<std::size_t>(u) * n + v]);
        }
    }
    if (heaviest > kMaxWeight) {
        throw std::invalid_argument("a weight is above 2**59");
    }
    if (heaviest <= Matrix<std::int32_t>::kHeaviest) {
        return std::make_unique<DenseMatcher<std::int32_t>>(capacity, n, weights);
    }
    return std::make_unique<DenseMatcher<std::int64_t>>(capacity, n, weights);
}

}  // namespace hivecore::matching
