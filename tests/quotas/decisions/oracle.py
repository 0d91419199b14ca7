"""A model of small trees of quotas, in plain Python: it shares no code with kernel or twin."""

from fractions import Fraction

DIMENSIONS = ("x", "y")


class Oracle:
    """Quotas and requests by name, and how many members of each owner run."""

    def __init__(self, quotas, total, requests, running, settings):
        self.quotas = {quota.name: quota for quota in quotas}
        self.total = total
        self.requests = {request.name: request for request in requests}
        self.running = dict(running)
        self.settings = settings

    # --- sums

    def path(self, name):
        """From the quota to the top."""
        return [] if not name else [name, *self.path(self.quotas[name].parent)]

    def children(self, parent):
        return [
            self.quotas[name]
            for name in sorted(self.quotas)
            if self.quotas[name].parent == parent and not self.quotas[name].outside
        ]

    def takes(self, name, d):
        """What a member of an owner takes, as far as it counts at its quota."""
        request = self.requests[name]
        counts = d in dict(self.quotas[request.quota].max)
        return dict(request.amounts).get(d, 0) if counts else 0

    def sum(self, place, d, members, *, firm=False):
        """Over owners at a place and below it; "": in the whole tree but for outside quotas."""
        amounts = 0
        for name, count in members.items():
            request = self.requests[name]
            outside = self.quotas[request.quota].outside
            below = place in self.path(request.quota) if place else not outside
            if below and not (firm and request.preemptible):
                amounts += count * self.takes(name, d)
        return amounts

    def net_total(self, d, members):
        outside = [name for name, quota in self.quotas.items() if quota.outside]
        left = self.total.get(d, 0) - sum(self.sum(name, d, members) for name in outside)
        return max(left, 0)

    # --- what quotas may use

    def lends(self, quota):
        return quota.lends and not self.settings.get("guarantee")

    def request(self, quota, d):
        """What a quota asks of its parent."""
        own = sum(
            request.count * self.takes(name, d)
            for name, request in self.requests.items()
            if request.quota == quota.name
        )
        own += sum(self.request(child, d) for child in self.children(quota.name))
        least = 0 if self.lends(quota) else dict(quota.min).get(d, 0)
        return min(max(own, least), dict(quota.max).get(d, 0))

    def kept(self, quota, d):
        """What a quota keeps where what runs is guaranteed."""
        used = self.sum(quota.name, d, self.running)
        own = sum(
            count * self.takes(name, d)
            for name, count in self.running.items()
            if self.requests[name].quota == quota.name
        )
        below = own + sum(self.kept(child, d) for child in self.children(quota.name))
        most = max(dict(quota.max).get(d, 0), used)
        return min(max(below, dict(quota.min).get(d, 0)), most)

    def scaled(self, quotas, d, amount):
        """The minimums of quotas, scaled down if there is less than all of them."""
        declared = [dict(quota.min).get(d, 0) for quota in quotas]
        if not self.settings.get("scale_min", True) or sum(declared) <= amount:
            return declared
        fixed = sum(n for n, quota in zip(declared, quotas, strict=True) if not quota.scales)
        weights = [n if quota.scales else 0 for n, quota in zip(declared, quotas, strict=True)]
        parts = in_proportion(max(amount - fixed, 0), weights)
        return [
            part if quota.scales else n
            for n, part, quota in zip(declared, parts, quotas, strict=True)
        ]

    def minimums(self, members):
        """By (quota, dimension), whatever is asked for."""
        amounts = {}

        def go_below(parent, d, amount):
            quotas = self.children(parent)
            least = self.scaled(quotas, d, amount)
            for own, quota in zip(least, quotas, strict=True):
                amounts[quota.name, d] = own
                most = min(amount - (sum(least) - own), dict(quota.max).get(d, 0))
                go_below(quota.name, d, max(own, most) if weight(quota, d) else own)

        for d in DIMENSIONS:
            go_below("", d, self.net_total(d, members))
        return amounts

    def runtimes(self, members):
        """By (quota, dimension).

        :param members: those that run, as far as they are in outside quotas: of the others what
            runs now counts.
        """
        amounts, minimums = {}, self.minimums(members)

        def go_below(parent, d, amount):
            quotas = self.children(parent)
            requests = [self.request(quota, d) for quota in quotas]
            least = (
                [minimums[quota.name, d] for quota in quotas]
                if sum(requests) <= amount
                else self.scaled(quotas, d, amount)
            )
            if self.settings.get("guarantee"):
                least = [
                    max(n, self.kept(quota, d)) for n, quota in zip(least, quotas, strict=True)
                ]
            shares = filled(
                amount,
                [
                    (a, n, weight(quota, d), self.lends(quota))
                    for a, n, quota in zip(requests, least, quotas, strict=True)
                ],
            )
            for quota, share in zip(quotas, shares, strict=True):
                amounts[quota.name, d] = share
                go_below(quota.name, d, share)

        for d in DIMENSIONS:
            go_below("", d, self.net_total(d, members))
            for name, quota in self.quotas.items():
                if quota.outside:
                    amounts[name, d] = dict(quota.max).get(d, 0)
        return amounts

    # --- which owners are admitted

    def after(self, asks):
        return {name: self.running.get(name, 0) + asks.get(name, 0) for name in self.requests}

    def admits(self, asks):
        """Whether all owners that ask are within their limits when all have what they ask for."""
        members = self.after(asks)
        runtimes = self.runtimes(members)
        return all(self.is_within(name, members, runtimes) for name in asks)

    def is_within(self, name, members, runtimes):
        request = self.requests[name]
        path = self.path(request.quota)
        checks_ancestors = self.settings.get("check_ancestors", True)
        checked = path if checks_ancestors else path[:1]
        for d in DIMENSIONS:
            if not self.takes(name, d):
                continue
            for place in checked:
                limit = dict(self.quotas[place].max).get(d, 0)
                if self.settings.get("limit") != "max":
                    limit = runtimes[place, d]
                if self.sum(place, d, members) > limit:
                    return False
            firm = self.sum(path[0], d, members, firm=True)
            if not request.preemptible and firm > dict(self.quotas[path[0]].min).get(d, 0):
                return False
            has_total = not self.quotas[path[-1]].outside and checks_ancestors
            if has_total and self.sum("", d, members) > self.net_total(d, members):
                return False
        return True


def weight(quota, d):
    return dict(quota.max if quota.weight is None else quota.weight).get(d, 0)


def in_proportion(amount, weights):
    """Rounded down, the units that are left to the largest remainders, the first of equals."""
    whole = sum(weights)
    if not whole:
        return [0] * len(weights)
    exact = [Fraction(amount * share, whole) for share in weights]
    parts = [int(part) for part in exact]
    order = sorted(range(len(parts)), key=lambda i: (parts[i] - exact[i], i))
    for i in order[: amount - sum(parts)]:
        parts[i] += 1
    return parts


def filled(amount, claims):
    """Water-filling in rounds, of (request, minimum, weight, lends)."""
    have = [
        least if request > least or not lends else request for request, least, _, lends in claims
    ]
    left = amount - sum(have)
    while left > 0:
        hungry = [i for i, claim in enumerate(claims) if have[i] < claim[0]]
        parts = in_proportion(left, [claims[i][2] for i in hungry])
        if not any(parts):
            break
        left = 0
        for i, part in zip(hungry, parts, strict=True):
            taken = min(part, claims[i][0] - have[i])
            have[i] += taken
            left += part - taken
    return have
