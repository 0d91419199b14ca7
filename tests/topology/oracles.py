"""What the best placement of a gang is, found without kernel and twin."""

from itertools import product


class Parts:
    """The domains of a network of nodes with a label for each layer, in pre-order."""

    def __init__(self, labels):
        self.deepest = len(labels[0]) + 1
        self.domains = []  # (level, its nodes)

        def visit(level, nodes):
            self.domains.append((level, tuple(nodes)))
            if level == self.deepest:
                return
            groups = {}
            for node in nodes:
                key = node if level == self.deepest - 1 else labels[node][level]
                groups.setdefault(key, []).append(node)
            for group in groups.values():
                visit(level + 1, group)

        visit(0, list(range(len(labels))))


def objective(parts, slots, wish, level, counts):
    """The numbers that are compared of so many pods on nodes; None: a multiple is not kept."""
    touched = [(at, nodes) for at, nodes in parts.domains if at >= level and _uses(counts, nodes)]
    if level > 0 and len([1 for at, _ in touched if at == level]) != 1:
        return None
    if any(
        sum(counts.get(n, 0) for n in nodes) % wish.multiples.get(at, 1) for at, nodes in touched
    ):
        return None
    if any(
        sum(counts.get(n, 0) for n in nodes) > wish.limits[at]
        for at, nodes in parts.domains
        if at in wish.limits
    ):
        return None
    levels = range(level, parts.deepest + 1)
    wider = [nodes for at, nodes in parts.domains if 0 < at < level and _uses(counts, nodes)][::-1]
    return (
        *(sum(at == layer for at, _ in touched) for layer in levels),
        *(
            -sum(wish.existing.get(n, 0) for at, nodes in touched if at == layer for n in nodes)
            for layer in levels
        ),
        *(-sum(wish.existing.get(n, 0) for n in nodes) for nodes in wider),
        sum(wish.cost.get(node, 0) for node, count in counts.items() if count),
        *(sum(slots[n] for at, nodes in touched if at == layer for n in nodes) for layer in levels),
        *(sum(slots[n] for n in nodes) for nodes in wider),
    )


def _uses(counts, nodes):
    return any(counts.get(node) for node in nodes)


def brute_force(labels, slots, wish):
    """(level, (node, pods, others) in order) of the best of all placements; None: there is none."""
    parts = Parts(labels)
    narrowest = parts.deepest if wish.narrowest is None else wish.narrowest
    for level in range(narrowest, wish.widest - 1, -1):
        best = None
        for place, (at, nodes) in enumerate(parts.domains):
            if at != level:
                continue
            rooms = [_rooms(slots, wish, node) for node in nodes]
            for pairs in product(*rooms):
                pods, others = (sum(column) for column in zip(*pairs, strict=True))
                if (pods, others) != (wish.pods, wish.others):
                    continue
                counts = {n: sum(pair) for n, pair in zip(nodes, pairs, strict=True)}
                cost = objective(parts, slots, wish, level, counts)
                if cost is None:
                    continue
                by_node = dict(zip(nodes, pairs, strict=True))
                key = cost, place, _order(parts, wish, level, nodes, by_node)
                if best is None or key < best[0]:
                    best = key, [(node, *pair) for node, pair in by_node.items() if any(pair)]
        if best is not None:
            return level, best[1]
    return None


def _rooms(slots, wish, node):
    if wish.rooms is not None:
        return sorted(wish.rooms[node])
    return [(pods, 0) for pods in range(min(slots[node], wish.pods) + 1)]


def _order(parts, wish, level, inside, pairs):
    """Of equals: most pods in the first domain that has a multiple or a limit; on the first node
    the most others, then the most pods."""
    results = []
    for at, nodes in parts.domains:
        if set(nodes) <= set(inside):
            if at == parts.deepest:
                results.append((-pairs[nodes[0]][1], -pairs[nodes[0]][0]))
            elif at > level and (wish.multiples.get(at, 1) > 1 or _limit(wish, at) < wish.pods):
                results.append((-sum(pairs[node][0] for node in nodes),))
    return tuple(results)


def _limit(wish, at):
    return min([wish.pods, *[most for level, most in wish.limits.items() if level <= at]])


def even_objective(parts, slots, wish, level, at, counts):
    """The same numbers where domains of a level are to be balanced."""
    cost = objective(parts, slots, wish, level, counts)
    if cost is None:
        return None
    loads = [sum(counts.get(n, 0) for n in nodes) for item, nodes in parts.domains if item == at]
    first = max(at - level + 1, 0)
    return (*cost[:first], max(loads), *cost[first:])
