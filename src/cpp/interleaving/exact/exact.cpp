#include "interleaving/exact/exact.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "interleaving/grouping/profiles.hpp"
#include "interleaving/rounds/node.hpp"

namespace hivecore::interleaving {
namespace {

constexpr double kMaxValue = 1e9;
constexpr std::size_t kKeep = 1'000'000;  // times and types

}  // namespace

class ExactGrouper::Call {
  public:
    Call(ExactGrouper& all, const Jobs& jobs, std::span<const std::uint8_t> optional)
        : all_(all),
          terms_(all.terms_),
          jobs_(jobs),
          optional_(optional),
          values_(jobs, all.terms_),
          profiles_(values_.has_slowdown_limit() ? each_its_own() : profiles_of(jobs)) {
        for (const Job job : profiles_.first) {
            numbers_.push_back(number_of(job));
        }
        std::map<std::int64_t, std::size_t> place;
        for (Job job = 0; job < jobs.count(); ++job) {
            const auto [entry, is_new] = place.try_emplace(jobs.gpus[job], buckets_.size());
            if (is_new) {
                buckets_.push_back({{}, {}, {}});
                programs_.push_back({jobs.gpus[job], {}, {}, {}});
            }
            buckets_[entry->second].jobs.push_back(job);
        }
        for (const BucketJobs& program : programs_) {
            unit_ = std::gcd(unit_, program.gpus);
        }
        for (std::size_t b = 0; b < buckets_.size(); ++b) {
            sort_by_type(b);
        }
    }

    ExactGrouping solve(std::int64_t capacity, int nodes) {
        Cover own;
        // With a limit to slowdown jobs of equal profile differ, so nothing is kept.
        Cover& cover = values_.has_slowdown_limit() ? own : all_.cover_;
        const auto covering =
            cover.solve(programs_, [&](std::size_t b) { return kinds_of(b); }, capacity, nodes);
        const auto unit = static_cast<double>(unit_);
        ExactGrouping exact{{{0}, {}}, covering.value * unit, covering.bound * unit};
        for (std::size_t b = 0; b < buckets_.size(); ++b) {
            name_jobs(b, covering.groups[b], exact.groups);
        }
        return exact;
    }

  private:
    // Jobs that need equally many GPUs.
    struct Members {
        std::vector<Job> jobs;
        std::vector<Type> types;                // that it has, ascending
        std::vector<std::vector<Job>> of_type;  // those that must be in a group first, by rank
    };

    // Types in the order of their rows, one for each job.
    Profiles each_its_own() const {
        const Profiles alike = profiles_of(jobs_);
        Profiles own{std::vector<Type>(jobs_.count()), std::vector<Job>(jobs_.count())};
        std::iota(own.first.begin(), own.first.end(), 0);
        std::sort(own.first.begin(), own.first.end(), [&](Job a, Job b) {
            return std::pair(alike.type[a], a) < std::pair(alike.type[b], b);
        });
        for (Type type = 0; type < own.count(); ++type) {
            own.type[own.first[type]] = type;
        }
        return own;
    }

    // The same for the same profile in every call.
    Type number_of(Job job) {
        const double* row = jobs_.durations.row(job);
        std::vector<double> profile(row, row + jobs_.durations.columns);
        profile.push_back(jobs_.solo[job]);
        for (const std::int64_t half : {jobs_.memory[job] >> 32, jobs_.memory[job] & 0xFFFFFFFF}) {
            profile.push_back(static_cast<double>(half));
        }
        return all_.types_.try_emplace(profile, static_cast<Type>(all_.types_.size()))
            .first->second;
    }

    void sort_by_type(std::size_t b) {
        Members& bucket = buckets_[b];
        BucketJobs& program = programs_[b];
        std::sort(bucket.jobs.begin(), bucket.jobs.end(), [&](Job x, Job y) {
            return std::tuple(profiles_.type[x], optional_[x], jobs_.rank[x]) <
                   std::tuple(profiles_.type[y], optional_[y], jobs_.rank[y]);
        });
        for (const Job job : bucket.jobs) {
            const Type type = profiles_.type[job];
            if (bucket.types.empty() || bucket.types.back() != type) {
                bucket.types.push_back(type);
                bucket.of_type.emplace_back();
                program.jobs.push_back(0);
                program.optional.push_back(0);
            }
            bucket.of_type.back().push_back(job);
            ++program.jobs.back();
            program.optional.back() += optional_[job] ? 1 : 0;
        }
        // Equal GPUs, profiles and numbers of jobs: equal programs.
        program.key = {static_cast<int>(program.gpus / unit_)};
        for (std::size_t t = 0; t < bucket.types.size(); ++t) {
            program.key.insert(program.key.end(),
                               {numbers_[bucket.types[t]], program.jobs[t], program.optional[t]});
        }
    }

    // --- kinds of groups -----------------------------------------------------------------------

    GroupKinds kinds_of(std::size_t b) {
        Lists lists;
        lists.left = programs_[b].jobs;
        extend(b, 0, 0, lists);
        GroupKinds kinds;
        kinds.types = static_cast<int>(buckets_[b].types.size());
        const auto times = times_of(b, lists);
        for (std::size_t k = 0; k + 1 < lists.starts.size(); ++k) {
            const auto first = lists.types.begin() + lists.starts[k];
            const auto last = lists.types.begin() + lists.starts[k + 1];
            Node node{{}, static_cast<int>(last - first), times[k]};
            std::transform(first, last, node.members.begin(), [&](int t) {
                return profiles_.first[buckets_[b].types[static_cast<std::size_t>(t)]];
            });
            // Its jobs are the first of their types; with a limit to slowdown, the only ones.
            if (!values_.is_allowed({&node}, node.time) && node.size > 1) {
                continue;
            }
            const double value = values_.value(node);
            if (!(std::fabs(value) <= kMaxValue)) {
                throw std::invalid_argument("solo and durations are too far apart for this method");
            }
            kinds.member.insert(kinds.member.end(), first, last);
            kinds.start.push_back(static_cast<int>(kinds.member.size()));
            kinds.value.push_back(value * static_cast<double>(programs_[b].gpus / unit_));
        }
        return kinds;
    }

    struct Lists {
        std::vector<std::ptrdiff_t> starts{0};
        std::vector<int> types;  // places in the bucket's list
        std::vector<int> chosen;
        std::vector<int> left;  // jobs per type
    };

    // All multisets of types that begin with the chosen ones, in lexicographic order.
    void extend(std::size_t b, int from, std::int64_t memory, Lists& lists) const {
        const Members& bucket = buckets_[b];
        for (int t = from; t < static_cast<int>(bucket.types.size()); ++t) {
            const auto type = static_cast<std::size_t>(t);
            const std::int64_t both = memory + jobs_.memory[bucket.of_type[type][0]];
            if (lists.left[type] == 0 || (both > terms_.gpu_memory && !lists.chosen.empty())) {
                continue;
            }
            --lists.left[type];
            lists.chosen.push_back(t);
            lists.types.insert(lists.types.end(), lists.chosen.begin(), lists.chosen.end());
            lists.starts.push_back(static_cast<std::ptrdiff_t>(lists.types.size()));
            if (lists.starts.size() > kMaxKinds) {
                throw std::invalid_argument(
                    "durations has too many different rows for this method: more than " +
                    std::to_string(kMaxKinds) + " kinds of groups of jobs that need " +
                    std::to_string(programs_[b].gpus) + " GPUs");
            }
            if (static_cast<int>(lists.chosen.size()) < terms_.max_group) {
                extend(b, t, both, lists);
            }
            lists.chosen.pop_back();
            ++lists.left[type];
        }
    }

    std::vector<double> times_of(std::size_t b, const Lists& lists) {
        std::vector<double> times;
        std::vector<Mixture> searched;
        std::vector<std::size_t> places;
        std::vector<std::int64_t> starts{0};
        std::vector<Job> members;
        for (std::size_t k = 0; k + 1 < lists.starts.size(); ++k) {
            Mixture mixture;
            mixture.fill(kNone);
            const auto size = lists.starts[k + 1] - lists.starts[k];
            const int* types = &lists.types[static_cast<std::size_t>(lists.starts[k])];
            for (std::ptrdiff_t i = 0; i < size; ++i) {
                mixture[static_cast<std::size_t>(i)] = numbers_[type(b, types[i])];
            }
            std::sort(mixture.begin(), mixture.end());
            if (size == 1) {
                times.push_back(jobs_.solo[profiles_.first[type(b, types[0])]]);
                continue;
            }
            const auto known = all_.times_.find(mixture);
            times.push_back(known == all_.times_.end() ? 0 : known->second);
            if (known == all_.times_.end()) {
                searched.push_back(mixture);
                places.push_back(k);
                for (std::ptrdiff_t i = 0; i < size; ++i) {
                    members.push_back(profiles_.first[type(b, types[i])]);
                }
                starts.push_back(static_cast<std::int64_t>(members.size()));
            }
        }
        const auto rounds = rounds_of(terms_.rule, jobs_.durations, {starts, members});
        for (std::size_t i = 0; i < searched.size(); ++i) {
            const auto size = static_cast<std::size_t>(starts[i + 1] - starts[i]);
            times[places[i]] = rounds.time[i] * terms_.factors[size - 1];
            all_.times_.emplace(searched[i], times[places[i]]);
        }
        return times;
    }

    std::size_t type(std::size_t b, int place) const {
        return static_cast<std::size_t>(buckets_[b].types[static_cast<std::size_t>(place)]);
    }

    // --- jobs ----------------------------------------------------------------------------------

    void name_jobs(std::size_t b, const std::vector<EqualGroups>& alike, Grouping& grouping) {
        struct Named {
            double time;
            const std::vector<int>* types;
            std::vector<Job> jobs;
        };
        Lists lists;
        std::vector<Named> groups;
        for (const auto& [types, count] : alike) {
            lists.types.insert(lists.types.end(), types.begin(), types.end());
            lists.starts.push_back(static_cast<std::ptrdiff_t>(lists.types.size()));
        }
        const auto times = times_of(b, lists);
        for (std::size_t i = 0; i < alike.size(); ++i) {
            for (int c = 0; c < alike[i].count; ++c) {
                groups.push_back({times[i], &alike[i].types, {}});
            }
        }
        std::stable_sort(groups.begin(), groups.end(), [](const Named& x, const Named& y) {
            return x.time != y.time ? x.time < y.time : *x.types < *y.types;
        });
        std::vector<std::size_t> next(buckets_[b].types.size(), 0);
        for (Named& group : groups) {
            for (const int t : *group.types) {
                const auto place = static_cast<std::size_t>(t);
                group.jobs.push_back(buckets_[b].of_type[place][next[place]++]);
            }
            std::sort(group.jobs.begin(), group.jobs.end());
        }
        std::sort(groups.begin(), groups.end(),
                  [](const Named& x, const Named& y) { return x.jobs < y.jobs; });
        for (const Named& group : groups) {
            grouping.members.insert(grouping.members.end(), group.jobs.begin(), group.jobs.end());
            grouping.starts.push_back(static_cast<std::int64_t>(grouping.members.size()));
        }
    }

    ExactGrouper& all_;
    const Terms& terms_;
    Jobs jobs_;
    std::span<const std::uint8_t> optional_;
    GroupValues values_;
    Profiles profiles_;
    std::vector<Type> numbers_;  // per type of this call, its number for all calls
    std::vector<Members> buckets_;
    std::vector<BucketJobs> programs_;
    std::int64_t unit_ = 0;  // GPUs in which all buckets count
};

ExactGrouper::ExactGrouper(const Terms& terms)
    : factors_(terms.factors.begin(), terms.factors.end()), terms_(terms) {
    terms_.factors = factors_;
}

ExactGrouping ExactGrouper::group(const Jobs& jobs, std::span<const std::uint8_t> optional,
                                  std::int64_t capacity, int nodes) {
    if (times_.size() + types_.size() > kKeep) {
        types_.clear();
        times_.clear();
        cover_ = Cover();
    }
    return Call(*this, jobs, optional).solve(capacity, nodes);
}

}  // namespace hivecore::interleaving
