"""Jobs that share storage, by small steps of one length: slow, plain, not built on the library.

First in first out for the GPUs, the most efficient datasets first for the cache, as `hivecore.sim`
does it without hysteresis. All that is known of a dataset are amounts: what is cached, and for each
job what it has yet to read in its epoch (`unread`) and how much of that is not cached (`missing`).
"""

from dataclasses import dataclass, field


@dataclass
class Job:
    dataset: int
    size: float
    total: float
    rate: float
    gpus: int
    submit: float
    left: float = field(init=False)
    unread: float = field(init=False)
    missing: float | None = None
    end: float | None = None

    def __post_init__(self):
        self.left = self.total
        self.unread = self.size


def shares(demand, bandwidth, mode):
    if mode == "priority":
        results = []
        for wish in demand:
            results.append(min(wish, bandwidth))
            bandwidth -= results[-1]
        return results
    if mode == "proportional":
        return [wish * min(1.0, bandwidth / max(sum(demand), 1e-12)) for wish in demand]
    results = [0.0] * len(demand)
    for place, job in enumerate(sorted(range(len(demand)), key=lambda job: demand[job])):
        results[job] = min(demand[job], bandwidth / (len(demand) - place))
        bandwidth -= results[job]
    return results


def by_steps(
    jobs, gpus, cache, bandwidth, step, mode="priority", read_first=False, warm_up=False, lazy=True
):
    """The times at which the jobs end; sizes in MB, rates in MB/s."""
    sizes = {job.dataset: job.size for job in jobs}
    # only the length of the steps leaves so little of a dataset over
    rest = 2 * step * max(bandwidth, *[job.rate for job in jobs])
    cached = dict.fromkeys(sizes, 0.0)
    last_use = dict.fromkeys(sizes, 0.0)
    quota = dict.fromkeys(sizes, 0.0)
    waiting, running = sorted(jobs, key=lambda job: job.submit), []
    now, before = 0.0, None
    while waiting or running:
        for job in list(running):
            if job.left <= 1e-9 * job.total:
                job.end = now
                running.remove(job)
        present = running + [job for job in waiting if job.submit <= now]
        free = gpus - sum(job.gpus for job in running)
        for job in present[len(running) :]:
            if job.gpus > free:
                break
            free -= job.gpus
            waiting.remove(job)
            running.append(job)
            job.missing = misses(job, cached, step)
        state = [id(job) for job in present]
        if state != before:
            before = state
            worth = {
                name: sum(job.rate for job in running if job.dataset == name) / sizes[name]
                for name in sizes
            }
            room = cache
            quota = dict.fromkeys(sizes, 0.0)
            queued = list(dict.fromkeys(job.dataset for job in present))
            used = [name for name in queued if worth[name] > 0]
            idle = [name for name in queued if worth[name] == 0]
            fill = [(name, sizes[name]) for name in sorted(used, key=lambda name: -worth[name])]
            fill += [(name, cached[name]) for name in idle]  # what waiting jobs have is kept first
            fill += [(name, sizes[name]) for name in queued]
            for name, most in fill:
                more = max(min(most - quota[name], room), 0.0)
                quota[name] += more
                room -= more
            wanted = set(queued)
            reclaim = sorted(
                sizes,
                key=lambda name: (
                    name in wanted,
                    worth[name] if name in wanted else last_use[name],
                ),
            )
            if not lazy:
                for name in sizes:
                    evict(running, cached, name, max(cached[name] - quota[name], 0.0), read_first)

        miss = [max(job.missing, 0.0) / job.unread for job in running]
        granted = shares(
            [job.rate * ratio for job, ratio in zip(running, miss, strict=True)], bandwidth, mode
        )
        rate = [
            min(job.rate, share / ratio) if ratio > 1e-12 else job.rate
            for job, ratio, share in zip(running, miss, granted, strict=True)
        ]
        brought = dict.fromkeys(sizes, 0.0)
        for job, speed, ratio in zip(running, rate, miss, strict=True):
            brought[job.dataset] += speed * ratio * step
        if warm_up:
            for name in queued:
                if cached[name] < quota[name] - 1e-9 * sizes[name]:
                    brought[name] += (bandwidth - sum(granted)) * step
                    break
        admitted = {
            name: min(brought[name], max(quota[name] - cached[name], 0.0)) for name in sizes
        }
        over = sum(cached.values()) + sum(admitted.values()) - cache
        for name in reclaim:
            if over > 0 and cached[name] > quota[name]:
                amount = min(over, cached[name] - quota[name])
                evict(running, cached, name, amount, read_first)
                over -= amount
        for job, speed, ratio in zip(running, rate, miss, strict=True):
            own = speed * ratio * step
            name = job.dataset
            part = admitted[name] / brought[name] if brought[name] else 0.0
            uncached = max(sizes[name] - cached[name], 1e-9)
            others = max(admitted[name] - own * part, 0.0)
            job.missing -= own + others * min(job.missing / uncached, 1.0)
            job.unread -= speed * step
            job.left -= speed * step
        for name, size in sizes.items():
            cached[name] += admitted[name]
            if quota[name] == size <= cached[name] + rest:
                cached[name] = size
        for job in running:
            if cached[job.dataset] == sizes[job.dataset]:
                job.missing = 0.0
            last_use[job.dataset] = now
            if job.unread <= 0.5 * job.rate * step:
                job.unread += job.size
                job.missing = misses(job, cached, step)
            job.missing = min(max(job.missing, 0.0), job.unread)
        now += step
    return [job.end for job in jobs]


def misses(job, cached, step):
    """What an epoch will miss, without what only the length of the steps has left over."""
    missing = job.unread - cached[job.dataset]
    return missing if missing > 2 * job.rate * step else 0.0


def evict(running, cached, name, amount, read_first):
    readers = [job for job in running if job.dataset == name]
    held = cached[name]
    if amount <= 0 or held <= 0:
        return
    spared = 0.0
    if read_first and readers:
        both = held
        for job in readers:
            both *= 1.0 - min((job.unread - job.missing) / held, 1.0)
        spared = min(both, amount)
        held -= both
    elif read_first:
        spared = amount
    if amount > spared:
        for job in readers:
            job.missing += (amount - spared) / max(held, 1e-9) * (job.unread - job.missing)
    cached[name] -= amount
