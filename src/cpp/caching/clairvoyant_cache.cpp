#include "caching/clairvoyant_cache.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace hivecore::caching::policies {

namespace {

constexpr std::size_t kArity = 4;
constexpr double kNever = std::numeric_limits<double>::infinity();

std::vector<std::uint32_t> starts(std::span<const std::int64_t> datasets) {
    std::vector<std::uint32_t> start{0};
    for (const std::int64_t items : datasets) {
        start.push_back(start.back() + static_cast<std::uint32_t>(items));
    }
    return start;
}

}  // namespace

Clairvoyant::Clairvoyant(std::span<const std::int64_t> datasets, std::int64_t capacity)
    : capacity_(capacity),
      start_(starts(datasets)),
      readers_(datasets.size()),
      slot_(start_.back()) {
    heap_.reserve(std::min<std::uint64_t>(static_cast<std::uint64_t>(capacity), start_.back()));
}

const Clairvoyant::Job* Clairvoyant::find(std::int64_t name) const {
    const auto entry =
        std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& job) { return job.name == name; });
    return entry == jobs_.end() ? nullptr : &*entry;
}

double Clairvoyant::time_of_use(const Job& job, std::uint64_t use) {
    // A difference in whole numbers: exact in both directions for 2^53 uses.
    const double after = use >= job.base_use ? static_cast<double>(use - job.base_use)
                                             : -static_cast<double>(job.base_use - use);
    return job.base + after / job.rate;
}

void Clairvoyant::load_epoch(Job& job, std::uint32_t items) {
    const std::uint64_t number = job.uses / items;
    const std::uint64_t epoch = job.first_epoch + number;
    job.epoch_start = number * items;
    job.present = Permutation(job.seed, epoch, items);
    job.following = Permutation(job.seed, epoch + 1, items);
}

void Clairvoyant::attach(const Job& job) {
    auto& readers = readers_[job.dataset];
    readers.reserve(readers.size() + 1);  // all or nothing, should memory run out
    jobs_.push_back(job);
    load_epoch(jobs_.back(), items(job.dataset));
    readers.push_back(static_cast<std::uint32_t>(jobs_.size() - 1));
    stale_ = true;
}

void Clairvoyant::detach(std::int64_t name) {
    jobs_.erase(jobs_.begin() + (&at(name) - jobs_.data()));
    for (auto& readers : readers_) {
        readers.clear();
    }
    for (std::uint32_t i = 0; i < jobs_.size(); ++i) {
        readers_[jobs_[i].dataset].push_back(i);
    }
    stale_ = true;
}

double Clairvoyant::time_of(std::int64_t name) const {
    const Job& job = *find(name);
    return time_of_use(job, job.uses);
}

void Clairvoyant::set_rate(std::int64_t name, double rate, double now) {
    Job& job = at(name);
    job.rate = rate;
    job.base = now;
    job.base_use = job.uses;
    stale_ = true;
}

std::uint64_t Clairvoyant::left(std::int64_t name) const {
    const Job& job = *find(name);
    return job.epochs == 0 ? ~std::uint64_t{0} : job.epochs * items(job.dataset) - job.uses;
}

// The item's use in the epoch after the present one.
double Clairvoyant::following_use(const Job& job, std::uint32_t item) const {
    const std::uint64_t start = job.epoch_start + job.present.items();
    if (job.epochs != 0 && start >= job.epochs * job.present.items()) {
        return kNever;
    }
    return time_of_use(job, start + job.following.position(item));
}

// The next use by any job; of `reader`, if there is one, the item is known to be the last use.
double Clairvoyant::next_use_after(const Job* reader, std::uint32_t dataset,
                                   std::uint32_t item) const {
    double soonest = kNever;
    // Jobs that have read the item in their present epochs: most often another one has not, and
    // will before they start their next epochs.
    std::array<const Job*, 32> done;
    std::size_t waiting = 0;
    for (const std::uint32_t place : readers_[dataset]) {
        const Job& job = jobs_[place];
        const bool ended = job.epochs != 0 && job.uses >= job.epochs * job.present.items();
        if (ended) {
            continue;
        }
        if (&job != reader || job.uses == job.epoch_start) {
            const std::uint64_t use = job.epoch_start + job.present.position(item);
            if (use >= job.uses) {
                soonest = std::min(soonest, time_of_use(job, use));
                continue;
            }
        }
        if (waiting < done.size()) {
            done[waiting++] = &job;
        } else {
            soonest = std::min(soonest, following_use(job, item));
        }
    }
    for (std::size_t i = 0; i < waiting; ++i) {
        const Job& job = *done[i];
        if (time_of_use(job, job.epoch_start + job.present.items()) < soonest) {
            soonest = std::min(soonest, following_use(job, item));
        }
    }
    return soonest;
}

std::uint32_t Clairvoyant::dataset_of(std::uint32_t global) const {
    return static_cast<std::uint32_t>(std::upper_bound(start_.begin(), start_.end(), global) -
                                      start_.begin() - 1);
}

double Clairvoyant::next_use_of(std::uint32_t global) const {
    const std::uint32_t dataset = dataset_of(global);
    return next_use(dataset, global - start_[dataset]);
}

void Clairvoyant::refresh() {
    for (Entry& entry : heap_) {
        entry.time = next_use_of(entry.item);
    }
    // Ties break by item, so that the order of the heap before does not matter to any victim.
    for (std::size_t at = heap_.size() / kArity + 1; at-- > 0;) {
        if (at < heap_.size()) {
            sink(at, heap_[at]);
        }
    }
    stale_ = false;
}

void Clairvoyant::rise(std::size_t at, Entry entry) {
    while (at > 0) {
        const std::size_t parent = (at - 1) / kArity;
        if (!farther(entry, heap_[parent])) {
            break;
        }
        place(at, heap_[parent]);
        at = parent;
    }
    place(at, entry);
}

void Clairvoyant::sink(std::size_t at, Entry entry) {
    const std::size_t n = heap_.size();
    while (true) {
        const std::size_t first = at * kArity + 1;
        if (first >= n) {
            break;
        }
        std::size_t best = first;
        for (std::size_t child = first + 1; child < std::min(first + kArity, n); ++child) {
            best = farther(heap_[child], heap_[best]) ? child : best;
        }
        if (!farther(heap_[best], entry)) {
            break;
        }
        place(at, heap_[best]);
        at = best;
    }
    place(at, entry);
}

// The job's use has been counted already: the next use is one after this.
bool Clairvoyant::touch(const Job& reader, std::uint32_t item) {
    const std::uint32_t global = start_[reader.dataset] + item;
    const Entry entry{next_use_after(&reader, reader.dataset, item), global};
    const std::uint32_t slot = slot_[global];
    if (slot != 0) {
        const std::size_t at = slot - 1;
        if (farther(entry, heap_[at])) {
            rise(at, entry);
        } else {
            sink(at, entry);
        }
        return true;
    }
    if (heap_.size() < static_cast<std::uint64_t>(capacity_)) {
        heap_.push_back(entry);
        rise(heap_.size() - 1, entry);
    } else if (farther(heap_[0], entry)) {
        slot_[heap_[0].item] = 0;
        sink(0, entry);
    }
    return false;
}

std::uint64_t Clairvoyant::access(std::int64_t name, std::uint64_t count, std::uint8_t* mask) {
    if (stale_) {
        refresh();
    }
    Job& job = at(name);
    const std::uint32_t n = items(job.dataset);
    std::uint64_t hits = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
        const auto position = static_cast<std::uint32_t>(job.uses - job.epoch_start);
        const std::uint32_t item = job.present.item(position);
        ++job.uses;
        if (position + 1 == n) {
            load_epoch(job, n);
        }
        const bool hit = touch(job, item);
        hits += hit;
        if (mask != nullptr) {
            mask[i] = hit;
        }
    }
    return hits;
}

namespace {

template <class Archive, class Job>
void job_fields(Archive& archive, Job& job) {
    archive.number(job.name);
    archive.number(job.seed);
    archive.number(job.first_epoch);
    archive.number(job.epochs);
    archive.number(job.uses);
    archive.number(job.rate);
    archive.number(job.base);
    archive.number(job.base_use);
    archive.number(job.dataset);
}

}  // namespace

void Clairvoyant::save(StateWriter& state) const {
    state.put(capacity_);
    state.put(static_cast<std::uint32_t>(datasets()));
    for (std::uint32_t dataset = 0; dataset < datasets(); ++dataset) {
        state.put(items(dataset));
    }
    state.put(static_cast<std::uint64_t>(jobs_.size()));
    Writer writer(state);
    for (const Job& job : jobs_) {
        job_fields(writer, job);
    }
    Bits resident(slot_.size());
    for (const Entry& entry : heap_) {
        resident.set(entry.item);
    }
    writer(resident.words);
}

Clairvoyant::Shape Clairvoyant::read_shape(StateReader& state) {
    Shape shape;
    shape.capacity = state.get<std::int64_t>("the capacity", 1, INT64_MAX);
    const auto datasets = state.get_all<std::uint32_t>(state.get<std::uint32_t>());
    // There is a bit per item: there are no more items than bits.
    std::uint64_t room = std::min<std::uint64_t>(kMostItems, 8 * state.left());
    for (const std::uint32_t items : datasets) {
        if (items == 0 || items > room) {
            throw StateError("the number of items is out of range");
        }
        room -= items;
        shape.datasets.push_back(items);
    }
    return shape;
}

Clairvoyant::Clairvoyant(StateReader& state) : Clairvoyant(read_shape(state)) {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 53;
    Reader reader(state);
    for (auto left = state.get<std::uint64_t>(); left > 0; --left) {
        Job job{};
        job_fields(reader, job);
        if (job.dataset >= datasets() || find(job.name) != nullptr || !(job.rate > 0) ||
            !std::isfinite(job.rate) || !std::isfinite(job.base) || job.first_epoch >= kMost ||
            job.uses >= kMost || job.base_use > job.uses ||
            (job.epochs != 0 && (job.epochs >= kMost / items(job.dataset) ||
                                 job.uses > job.epochs * items(job.dataset)))) {
            throw StateError("a job is in no possible state");
        }
        attach(job);
    }
    Bits resident(slot_.size());
    reader(resident.words);
    for (std::uint32_t global = 0; global < slot_.size(); ++global) {
        if (resident.test(global)) {
            if (heap_.size() == static_cast<std::uint64_t>(capacity_)) {
                throw StateError("more items are resident than the capacity");
            }
            heap_.push_back({0.0, global});
            slot_[global] = static_cast<std::uint32_t>(heap_.size());
        }
    }
    stale_ = true;
}

std::string Clairvoyant::audit() const {
    if (heap_.size() > static_cast<std::uint64_t>(capacity_)) {
        return "more items are resident than the capacity";
    }
    std::uint64_t listed = 0;
    for (std::size_t global = 0; global < slot_.size(); ++global) {
        const std::uint32_t slot = slot_[global];
        if (slot > heap_.size() || (slot != 0 && heap_[slot - 1].item != global)) {
            return "the heap does not hold the residents";
        }
        listed += slot != 0;
    }
    if (listed != heap_.size()) {
        return "an item stands in the heap twice";
    }
    for (std::size_t at = 0; at < heap_.size() && !stale_; ++at) {
        if (at > 0 && farther(heap_[at], heap_[(at - 1) / kArity])) {
            return "the heap is out of order";
        }
        if (heap_[at].time != next_use_of(heap_[at].item)) {
            return "a prediction is stale";
        }
    }
    for (std::uint32_t i = 0; i < jobs_.size(); ++i) {
        const auto& readers = readers_[jobs_[i].dataset];
        if (std::count(readers.begin(), readers.end(), i) != 1) {
            return "a job is not among the readers of its dataset";
        }
    }
    return "";
}

std::uint64_t Clairvoyant::bytes() const {
    return sizeof(*this) + jobs_.capacity() * sizeof(Job) + heap_.capacity() * sizeof(Entry) +
           slot_.bytes() + start_.capacity() * sizeof(std::uint32_t);
}

}  // namespace hivecore::caching::policies
