#include "dra/first_fit.hpp"

namespace hivecore::dra {

namespace {

class FirstFit {
  public:
    FirstFit(const Problem& problem, Grants& grants, const std::vector<Index>& fixed,
             std::uint64_t steps)
        : problem_(problem), grants_(grants), fixed_(fixed), steps_(steps) {
        const auto& alternatives = problem.claims.alternatives;
        of_claim_.resize(alternatives.empty() ? 0
                                              : static_cast<Index>(alternatives.back().claim) + 1);
    }

    std::optional<bool> run() {
        enter(0);
        while (request_ < problem_.requests) {
            if (alternative_ == problem_.first_alternative[request_ + 1]) {
                if (!go_back()) {
                    return false;
                }
            } else if (taken_ == 0 && !is_possible()) {
                ++alternative_;
            } else if (taken_ == problem_.wanted[alternative_]) {
                enter(request_ + 1);
            } else if (take()) {
                continue;
            } else if (steps_ == 0) {
                return {};
            } else if (taken_ > 0) {
                go_back();
            } else {
                ++alternative_;
                place_ = 0;
            }
        }
        return true;
    }

  private:
    struct Step {
        Index request, alternative, taken, place;
    };

    void enter(Index request) {
        request_ = request;
        alternative_ = request < problem_.requests ? problem_.first_alternative[request] : 0;
        taken_ = place_ = 0;
    }

    bool is_possible() const {
        const auto wanted = problem_.wanted[alternative_];
        return (fixed_[request_] == Mask::kNone || fixed_[request_] == alternative_) &&
               wanted <= problem_.devices[alternative_].size() &&
               of_claim_[claim()] + wanted <= kMostDevices;
    }

    Index claim() const {
        return static_cast<Index>(problem_.claims.alternatives[alternative_].claim);
    }

    // The next device that all rules allow, if enough are left after it.
    bool take() {
        const auto& devices = problem_.devices[alternative_];
        const auto last = devices.size() - (problem_.wanted[alternative_] - taken_);
        for (; place_ <= last && steps_ > 0; ++place_) {
            --steps_;
            if (grants_.give(alternative_, devices[place_])) {
                steps_so_far_.push_back({request_, alternative_, taken_, place_});
                ++of_claim_[claim()];
                ++taken_;
                ++place_;
                return true;
            }
        }
        return false;
    }

    // To the place after that of the last grant.
    bool go_back() {
        if (steps_so_far_.empty()) {
            return false;
        }
        const auto last = steps_so_far_.back();
        steps_so_far_.pop_back();
        grants_.take_back();
        request_ = last.request;
        alternative_ = last.alternative;
        taken_ = last.taken;
        place_ = last.place + 1;
        --of_claim_[claim()];
        return true;
    }

    const Problem& problem_;
    Grants& grants_;
    const std::vector<Index>& fixed_;
    std::uint64_t steps_;
    std::vector<Index> of_claim_;  // devices so far
    std::vector<Step> steps_so_far_;
    Index request_ = 0;
    Index alternative_ = 0;
    Index taken_ = 0;  // by this request
    Index place_ = 0;  // among its devices
};

}  // namespace

std::optional<bool> first_fit(const Problem& problem, Grants& grants,
                              const std::vector<Index>& fixed, std::uint64_t steps) {
    return FirstFit(problem, grants, fixed, steps).run();
}

}  // namespace hivecore::dra
