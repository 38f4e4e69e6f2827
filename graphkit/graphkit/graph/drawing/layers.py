"""Layers: which item stands above which, and in what order.

A level is arranged in four steps: edges that close a loop are turned round for the time being; every item gets
the longest way from the start as its layer; edges and labels get items of their own in the layers they pass; the
order in each layer is the one with the fewest crossings that a few sweeps find. Nested graphs are arranged on the
way, since their widths and ports are needed for the columns.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from graphkit.constants import END, START
from graphkit.graph.drawing.columns import PORT_GAP, place
from graphkit.graph.drawing.levels import Item, Level, Path, Plan, Side, Step, item_key, path_of
from graphkit.graph.drawing.texts import Measure

SWEEPS = 8


def arrange(plan: Plan, measure: Measure) -> None:
    """Fill the layers and steps of all levels, and give every item its column in its level."""
    _Arranger(plan, measure).arrange(plan.levels[()], {}, {})


class _Arranger:
    def __init__(self, plan: Plan, measure: Measure) -> None:
        self.measure = measure
        self.labels = plan.labels
        self.turned = plan.turned
        self.ends = [(path_of(edge.source), path_of(edge.target)) for edge in plan.edges]

    def arrange(self, level: Level, tops: Mapping[int, Path], bottoms: Mapping[int, Path]) -> None:
        """`tops` and `bottoms` are the edges that pass the border of the level's box, each with the node that
        it ends at inside."""
        depth = len(level.path) + 1
        entries = {edge: level.items[item_key(node, depth)] for edge, node in tops.items()}
        exits = {edge: level.items[item_key(node, depth)] for edge, node in bottoms.items()}
        links = self._downwards(level, entries.values())
        self._make_room(links, entries, exits)
        self._put_into_layers(level, links, entries, exits)
        for key, item in level.items.items():
            if item.level is not None:
                self.arrange(
                    item.level,
                    self._inside(key, tops) | {n: self._end(n, False) for n, _, low in links if low is item},
                    self._inside(key, bottoms) | {n: self._end(n, True) for n, up, _ in links if up is item},
                )
                item.left = (item.level.width - 1) // 2
                item.right = item.level.width - 1 - item.left
        _order(level)
        place(level)

    def _inside(self, key: Path, ends: Mapping[int, Path]) -> dict[int, Path]:
        return {edge: node for edge, node in ends.items() if item_key(node, len(key) - 1) == key}

    def _end(self, edge: int, upper: bool) -> Path:
        source, target = self.ends[edge]
        return source if upper != (edge in self.turned) else target

    def _downwards(self, level: Level, entries: Iterable[Item]) -> list[tuple[int, Item, Item]]:
        """The level's edges as (edge, upper item, lower item); what closes a loop is turned round."""
        from networkx import DiGraph, dfs_labeled_edges  # 400 ms to import

        items = list(level.items.values())
        links = [(edge, level.items[source], level.items[target]) for edge, source, target in level.links]
        begin = [item for item in items if _name(item) == START]
        graph = DiGraph()
        graph.add_nodes_from([*begin, *entries, *items])
        graph.add_edges_from((source, target) for _, source, target in links)
        open_items: set[Item] = set()
        closing: set[tuple[Item, Item]] = set()
        for source, target, event in dfs_labeled_edges(graph):
            if event == "forward":
                open_items.add(target)
            elif event == "reverse":
                open_items.discard(target)
            elif target in open_items:
                closing.add((source, target))
        self.turned |= {edge for edge, source, target in links if (source, target) in closing}
        return [
            (edge, target, source) if edge in self.turned else (edge, source, target)
            for edge, source, target in links
        ]

    def _make_room(
        self,
        links: Sequence[tuple[int, Item, Item]],
        entries: Mapping[int, Item],
        exits: Mapping[int, Item],
    ) -> None:
        """Make nodes wide enough for the ends of their edges, which stay away from the corners."""
        above = [lower for _, _, lower in links] + list(entries.values())
        below = [upper for _, upper, _ in links] + list(exits.values())
        for item in dict.fromkeys((*above, *below)):
            if item.kind == "node":
                ends = max(above.count(item), below.count(item))
                more = max(0, 2 + PORT_GAP * (ends - 1) // 2 + 1 - item.left)
                item.left += more
                item.right += more

    def _put_into_layers(
        self,
        level: Level,
        links: Sequence[tuple[int, Item, Item]],
        entries: Mapping[int, Item],
        exits: Mapping[int, Item],
    ) -> None:
        chains: list[tuple[int, list[Item]]] = []
        for edge, upper, lower in links:
            label = [self._label(edge)] if self.labels[edge] else []
            chains.append((edge, [upper, *label, lower]))
        layer_of = _layers(level.items.values(), [chain for _, chain in chains])
        depth = 1 + max(layer_of.values(), default=-1)
        if level.title is not None:
            layer_of = {item: layer + 1 for item, layer in layer_of.items()}
            depth += 2
            for edge, item in entries.items():
                level.tops[edge] = self._port(edge)
                layer_of[level.tops[edge]] = 0
                chains.append((edge, [level.tops[edge], item]))
            for edge, item in exits.items():
                level.bottoms[edge] = self._port(edge)
                layer_of[level.bottoms[edge]] = depth - 1
                chains.append((edge, [item, level.bottoms[edge]]))
        level.layers = [[] for _ in range(depth)]
        level.steps = [[] for _ in range(depth - 1)]
        for item, layer in layer_of.items():
            level.layers[layer].append(item)
        for edge, chain in chains:
            for upper, lower in pairwise(chain):
                between = [Item("bend", edge=edge) for _ in range(layer_of[upper] + 1, layer_of[lower])]
                for layer, (one, other) in enumerate(pairwise([upper, *between, lower]), layer_of[upper]):
                    level.steps[layer].append(Step(edge, one, other))
                    if other is not lower:
                        level.layers[layer + 1].append(other)

    def _label(self, edge: int) -> Item:
        lines = self.labels[edge]
        half = max(map(self.measure, lines)) // 2
        return Item("label", lines=lines, edge=edge, left=half, right=half, height=len(lines))

    def _port(self, edge: int) -> Item:
        return Item("port", edge=edge, height=1)


def _name(item: Item) -> str:
    return item.id.rpartition(":")[2]


def _layers(items: Iterable[Item], chains: Sequence[Sequence[Item]]) -> dict[Item, int]:
    """Layers from the longest way; END is alone in the last one, other starts than START stand late."""
    from networkx import DiGraph, topological_generations

    graph = DiGraph()
    graph.add_nodes_from(items)
    for chain in chains:
        graph.add_edges_from(pairwise(chain))
    layer_of = {item: layer for layer, items in enumerate(topological_generations(graph)) for item in items}
    for item in layer_of:
        followers = [layer_of[other] for other in graph.successors(item)]
        if not layer_of[item] and followers and _name(item) != START:
            layer_of[item] = min(followers) - 1
    for item in layer_of:
        if item.kind == "node" and _name(item) == END and not graph.out_degree(item):
            others = [layer for other, layer in layer_of.items() if other is not item]
            layer_of[item] = max(others, default=-1) + 1
    return layer_of


# The order in a layer


def _order(level: Level) -> None:
    """Barycentres, downwards and upwards by turns; the best order seen is taken."""
    best, fewest = list(level.layers), _crossings(level)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        downwards = sweep % 2 == 0
        count = len(level.layers)
        for index in range(1, count) if downwards else range(count - 2, -1, -1):
            steps = level.steps[index - 1] if downwards else level.steps[index]
            level.layers[index] = _by_barycentre(level, index, steps, downwards)
        crossings = _crossings(level)
        if crossings < fewest:
            best, fewest = list(level.layers), crossings
    level.layers = best


def _by_barycentre(level: Level, index: int, steps: Sequence[Step], downwards: bool) -> list[Item]:
    layer, known = level.layers[index], level.layers[index - 1 if downwards else index + 1]
    at = {item: number for number, item in enumerate(known)}
    pulls: dict[Item, list[float]] = {item: [] for item in layer}
    for step in steps:
        if downwards:
            pulls[step.lower].append(_position(at, step.upper, step.edge, "bottom"))
        else:
            pulls[step.upper].append(_position(at, step.lower, step.edge, "top"))
    centres = {
        item: sum(pull) / len(pull) if pull else number for number, (item, pull) in enumerate(pulls.items())
    }
    return sorted(layer, key=centres.__getitem__)


def _crossings(level: Level) -> int:
    crossings = 0
    for index, steps in enumerate(level.steps):
        above = {item: number for number, item in enumerate(level.layers[index])}
        below = {item: number for number, item in enumerate(level.layers[index + 1])}
        ends = sorted(
            (
                _position(above, step.upper, step.edge, "bottom"),
                _position(below, step.lower, step.edge, "top"),
            )
            for step in steps
        )
        seen: list[float] = []
        for _, end in ends:
            crossings += len(seen) - bisect(seen, end)
            insort(seen, end)
    return crossings


def _position(at: Mapping[Item, int], item: Item, edge: int, side: Side) -> float:
    """The place of an edge's end in the order of a layer: the ports of a box have an order of their own."""
    width = item.left + item.right + 1
    return at[item] + (item.left + item.offset(edge, side)) / width if item.level is not None else at[item]
