// One node's answer to a request, as Koordinator's device plugin gives it, defects included; the
// readable form is python/hivecore/reference/devices/koordinator/.
//
// A node is filtered, without comparing its devices, and then reserved, comparing them by policy:
// two allocations that may differ. It serves a request if both do.
#pragma once

#include <array>

#include "devices/koordinator/node.hpp"

namespace hivecore::devices::koordinator {

// What of its memory a GPU gives: bytes and percent, of which one was asked and the other follows.
Amounts with_all_memory(const Need& need, const DeviceColumn& column, int device);

// Whether a code may end when owners end.
bool is_resolvable(Code code);

template <int W>
class Allocator {
  public:
    // All arguments outlive the allocator, but `visible`; nullptr: all devices.
    Allocator(const Request& request, const Asked& asked, const Shape& shape,
              const std::uint64_t* state, Quirks quirks, const Visible* visible);

    // Whether the node passes the filter, and can be reserved after that.
    Verdict verdict(Policy policy);
    // After a verdict: the filtered node's score, over 100 if the request needs several types.
    std::int64_t score(Policy policy);

    // What is reserved: `visit(position of the need, device, number of a function or -1)`.
    template <class Visit>
    void reserve(Policy policy, Visit visit) {
        allocate(policy, true);
        for (int i = 0; i < needs(); ++i) {
            picks_[i].devices.each([&](int device) {
                const bool with = picks_[i].with_functions;
                const auto& column = node_.column(i);
                visit(i, device,
                      with ? free_function(node_.asked.needs[i], column, node_.state, device) : -1);
            });
        }
    }

  private:
    int needs() const { return static_cast<int>(node_.request.needs.size()); }
    Verdict allocate(Strategy strategy, bool reserving);
    bool can_fail_reserved() const;
    Verdict count_demands(bool reserving);
    Verdict choose(int i, int count, const Switches<W>& switches, Strategy strategy);
    Verdict choose_gpus(int i, int count, int most, Strategy strategy);
    Verdict choose_jointly(Strategy strategy);

    Node<W> node_;
    std::array<bool, kTypes> is_demanded_{}, is_chosen_{};
    std::array<Pick<W>, kTypes> picks_{};
};

extern template class Allocator<1>;
extern template class Allocator<kMostDevices / 64>;

}  // namespace hivecore::devices::koordinator
