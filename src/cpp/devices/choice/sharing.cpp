// The policies for shared GPUs: which GPUs of a node, and how good that is.
//
// A node's score is the opposite of a cost, so that more is better; costs are those of the twin
// (python/hivecore/reference/devices/sharing_policies.py). Products of amounts of the host and of
// GPUs can be larger than an integer: they are rounded to 53 bits, and scaled down if need be.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "common/splitmix.hpp"
#include "devices/choice/chooser.hpp"

namespace hivecore::devices {
namespace {

constexpr int kMostKind = 63;
// Growths of fragmentation are compared in steps of a twenty-fifth of a GPU.
constexpr std::int64_t kSteps = 25;
constexpr int kIdleBits = 20;  // 256 GPUs in thousandths need 18

std::uint64_t draw(std::uint64_t seed, std::initializer_list<std::uint64_t> numbers) {
    for (const auto number : numbers) {
        seed = SplitMix64{seed + number}.next();
    }
    return seed;
}

// What a device has of its primary amount.
std::int64_t size_of(const DeviceColumn& of, int device) {
    return of.primary[device] < 0 ? 0 : of.total[of.primary[device] * of.count + device];
}

// As an integer of the same order, where nothing is larger than the bound.
std::int64_t as_integer(double cost, double bound) {
    const int shift = std::max(std::ilogb(std::max(bound, 1.0)) - 57, 0);
    return static_cast<std::int64_t>(std::ldexp(cost, -shift));
}

}  // namespace

template <int W>
std::int64_t Chooser<W>::free_of(const DeviceColumn& of, int device) const {
    const int c = of.primary[device];
    if (c < 0) {
        return 0;
    }
    const auto at = c * of.count + device;
    return std::max<std::int64_t>(of.total[at] - used(of, at), 0);
}

// Of each GPU; of an unhealthy one nothing.
template <int W>
std::vector<std::int64_t> Chooser<W>::free_memory() const {
    const auto& of = shape_.of(kGpu);
    const auto healthy = of.count > 0 ? mask(of.healthy) : Set{};  // or it has no place in a state
    std::vector<std::int64_t> free(of.count);
    for (int device = 0; device < of.count; ++device) {
        free[device] = healthy.has(device) ? free_of(of, device) : 0;
    }
    return free;
}

template <int W>
std::int64_t Chooser<W>::free_cpu() const {
    const auto& of = shape_.of(kHost);
    return of.count > 0 && of.column_of[0] == of.primary[0]
               ? static_cast<std::int64_t>(state_[of.sums + 1])
               : 0;
}

// Whether only the policy decides which GPUs are taken.
template <int W>
bool Chooser<W>::is_simple(const Group& group) const {
    const auto& need = request_.needs[group.driver];
    if (need.repeats) {
        return true;
    }
    if ((policy_ != Policy::kFgd && policy_ != Policy::kRandom) || group.count > 0 ||
        need.type != kGpu) {
        return false;
    }
    return need.count == 1 || (limit(group.driver) == kMachine && column(group.driver).is_flat());
}

template <int W>
typename Chooser<W>::Set Chooser<W>::pick(int driver) const {
    if (request_.needs[driver].repeats) {
        return in_order(driver);
    }
    return policy_ == Policy::kFgd ? least_fragmenting(driver) : random_devices(driver);
}

// The first devices that give all that is needed, where one may do so several times.
template <int W>
typename Chooser<W>::Set Chooser<W>::in_order(int driver) const {
    const auto times = times_of(request_.needs[driver], fitted_.needs[driver], column(driver),
                                state_, eligible_[driver].template as<kMostDevices / 64>(),
                                reserved(driver).template as<kMostDevices / 64>());
    Set taken;
    for (int device = 0; device < column(driver).count; ++device) {
        if (times[device] > 0) {
            taken.add(device);
        }
    }
    return taken;
}

template <int W>
typename Chooser<W>::Set Chooser<W>::random_devices(int driver) const {
    const auto inside = reserved(driver);
    std::vector<std::tuple<bool, std::uint64_t, int>> drawn;
    eligible_[driver].each([&](int device) {
        const auto position = static_cast<std::uint64_t>(device);
        drawn.emplace_back(!inside.has(device),
                           draw(circumstances_.draw.seed,
                                {circumstances_.draw.number, circumstances_.node, position}),
                           device);
    });
    std::ranges::sort(drawn);
    Set taken;
    for (int i = 0; i < request_.needs[driver].count; ++i) {
        taken.add(std::get<int>(drawn[i]));
    }
    return taken;
}

// One GPU after the other, each where the node is the least fragmented then.
template <int W>
typename Chooser<W>::Set Chooser<W>::least_fragmenting(int driver) const {
    const auto& of = column(driver);
    auto free = free_memory();
    const auto cpu = free_cpu() - wanted_cpu();
    auto candidates = eligible_[driver];
    Set taken;
    for (int i = 0; i < request_.needs[driver].count; ++i) {
        int best = -1;
        std::int64_t least = 0;
        Set tried;
        const auto first = candidates & reserved(driver);
        (first.any() ? first : candidates).each([&](int device) {
            const auto charge =
                fitted_.needs[driver].charge[of.primary[device] * of.count + device];
            bool known = false;  // another one with as much free gives the same
            tried.each([&](int other) {
                known |=
                    free[other] == free[device] &&
                    charge == fitted_.needs[driver].charge[of.primary[other] * of.count + other];
            });
            if (known) {
                return;
            }
            tried.add(device);
            free[device] -= charge;
            const auto fragmented = circumstances_.mix->fragmentation(free, cpu);
            free[device] += charge;
            if (best < 0 || fragmented < least) {
                least = fragmented;
                best = device;
            }
        });
        free[best] -= fitted_.needs[driver].charge[of.primary[best] * of.count + best];
        candidates.remove(best);
        taken.add(best);
    }
    return taken;
}

template <int W>
std::int64_t Chooser<W>::fragmentation() const {
    return circumstances_.mix->fragmentation(free_memory(), free_cpu());
}

template <int W>
std::int64_t Chooser<W>::wanted_cpu() const {
    for (std::size_t i = 0; i < request_.needs.size(); ++i) {
        if (request_.needs[i].type == kHost) {
            return request_.needs[i].amounts[0];
        }
    }
    return 0;
}

template <int W>
std::int64_t Chooser<W>::score_of(const Chosen& chosen) const {
    const auto& gpus = shape_.of(kGpu);
    const auto& circumstances = circumstances_;
    const auto divisor = std::gcd(circumstances.cpu, circumstances.memory);
    const auto most_cpu = static_cast<double>(circumstances.cpu / divisor);
    const auto most_memory = static_cast<double>(circumstances.memory / divisor);
    const auto cpu = static_cast<double>(free_cpu());
    const auto free =
        gpus.count > 0 ? static_cast<std::int64_t>(state_[gpus.sums + 1]) : std::int64_t{0};
    const auto memory = static_cast<double>(free);
    const auto& taken = chosen.devices[kGpu];
    std::vector<int> times;
    if (taken.any() && request_.needs[0].repeats) {
        times = times_of(request_.needs[0], fitted_.needs[0], gpus, state_, taken,
                         reserved(0).template as<kMostDevices / 64>());
    }
    const auto share = [&](int device) {
        const auto charge = fitted_.needs[0].charge[gpus.primary[device] * gpus.count + device];
        return times.empty() ? charge : charge * times[device];
    };
    if (policy_ == Policy::kBestFit || policy_ == Policy::kWorstFit) {
        const auto cost = as_integer(cpu * most_memory + memory * most_cpu,
                                     2 * static_cast<double>(circumstances.cpu) * most_memory);
        return policy_ == Policy::kBestFit ? -cost : cost;
    }
    if (policy_ == Policy::kDotProduct) {
        std::int64_t gpu_memory = 0;
        taken.each([&](int device) { gpu_memory += share(device); });
        const auto bound = static_cast<double>(circumstances.cpu) * most_memory;
        return -as_integer(static_cast<double>(wanted_cpu()) * cpu * most_memory * most_memory +
                               static_cast<double>(gpu_memory) * memory * most_cpu * most_cpu,
                           2 * bound * bound);
    }
    if (policy_ == Policy::kFgd) {
        auto after = free_memory();
        taken.each([&](int device) { after[device] -= share(device); });
        const auto growth =
            circumstances.mix->fragmentation(after, free_cpu() - wanted_cpu()) - fragmentation();
        const auto size = gpus.count > 0 ? std::max<std::int64_t>(size_of(gpus, 0), 1) : 1;
        const auto unit = std::max<std::int64_t>(circumstances.mix_weight, 1) * size;
        const auto steps = (kSteps * growth - (growth < 0 ? unit - 1 : 0)) / unit;
        return -(steps * (std::int64_t{1} << kIdleBits) + free / size * 1000 +
                 free % size * 1000 / size);
    }
    if (!taken.any()) {
        return 0;
    }
    constexpr int kBand = 57;
    const auto in_use = mask(gpus.in_use).template as<kMostDevices / 64>();
    if (policy_ == Policy::kPacking) {
        if (!in_use.any()) {
            return -((std::int64_t{2} << kBand) + gpus.count);
        }
        if (const int opened = (taken & ~in_use).count(); opened > 0) {
            return -((std::int64_t{1} << kBand) + opened);
        }
        std::int64_t left = 0;
        taken.each([&](int device) { left += free_of(gpus, device); });
        return -left;
    }
    bool whole = true;
    taken.each([&](int device) { whole &= share(device) >= size_of(gpus, device); });
    const auto kinds = state_[0];
    const auto kind = std::uint64_t{1} << (whole ? std::min(taken.count(), kMostKind) : 0);
    const std::int64_t band = (kinds & kind) ? (kinds == kind ? 0 : 1) : (kinds != 0 ? 3 : 2);
    return -((band << kBand) + free);
}

std::uint64_t drawn_for(const Draw& given, std::uint64_t node) {
    return draw(given.seed, {given.number, node});
}

template class Chooser<1>;
template class Chooser<kMostDevices / 64>;

}  // namespace hivecore::devices
