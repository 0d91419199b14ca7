#include "matching/matcher.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <vector>

#include "matching/deadline.hpp"
#include "matching/dense.hpp"
#include "matching/dense_start.hpp"
#include "matching/matrix.hpp"
#include "matching/order.hpp"
#include "matching/row_kernels.hpp"
#include "matching/scale.hpp"

namespace hivecore::matching {
namespace {

template <class T>
class DenseMatcher final : public Matcher {
  public:
    DenseMatcher(Node capacity, Node n, std::span<const std::int64_t> weights)
        : n_(capacity), matrix_(capacity), changed_(capacity), kernels_(row_kernels<T>()) {
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
        T* row = matrix_.row(v);
        for (Node u = 0; u < static_cast<Node>(weights.size()); ++u) {
            if (u != v) {
                row[u] = doubled(weights[u]);
                matrix_.row(u)[v] = row[u];
            }
        }
    }

    void set_edge(Node u, Node v, std::int64_t weight) override {
        check(weight);
        if (matters(u, v, doubled(weight))) {
            change(v);
        }
        matrix_.row(u)[v] = matrix_.row(v)[u] = doubled(weight);
    }

    Matching solve() override {
        return or_start_over([&] { return search_again(); });
    }

    std::int64_t heaviest() const override { return Matrix<T>::kHeaviest; }

  private:
    static constexpr Node kManyChanged = 4;  // one vertex in so many

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
        if (!search_ || static_cast<Node>(changes_.size()) > n_ / kManyChanged) {
            start_over();
        } else {
            update();
        }
        std::fill(changed_.begin(), changed_.end(), false);
        changes_.clear();
        freed_.clear();
        Matching found = search_->result();
        search_->rejoin();
        return found;
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
                search_->release(v, freed_);
            });
            changed_[v] = true;
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
        engine_.emplace(matrix_);
        search_.emplace(n_, *engine_);
        Deadline never;
        start(matrix_, *search_, never);
        search_->run(spread_order(n_), never);
    }

    void update() {
        y_.resize(n_);
        for (Node v = 0; v < n_; ++v) {
            y_[v] = search_->shifted_dual(v);
        }
        for (const Node v : changes_) {
            set_lowest_dual(v);
        }
        for (const Node v : freed_) {
            if (search_->outer(v) == v && !search_->is_matched(v)) {
                set_lowest_dual(v);
            }
        }
        Deadline never;
        search_->run(freed_, never);
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
    std::vector<Node> changes_;
    std::vector<Node> freed_;
    std::vector<T> y_;
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
