#!/usr/bin/env python3
"""No more than three objects of an archive call each other in a circle.

    cycles.py <nm> <list> [<target>...]

A line of the list is "target;object;object..."; without targets all of them are looked at.
A component of the graph "object uses a symbol that object defines" is strongly connected if each of
its objects reaches every other one: to understand one of them you have to read them all. MOST is
the limit. A larger one is printed as a walk through all of its objects.
"""

import collections
import os
import pathlib
import subprocess
import sys

MOST = 3

# The archives with a larger component, and its size. A number may only shrink; the row goes when it
# is MOST or less.
STILL_LARGER = {}


def components(graph):
    """Tarjan's: the strongly connected components of {node: {neighbour: label}}."""
    order, low, stack, found = {}, {}, [], []

    def visit(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in graph[node]:
            if other not in order:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == order[node]:
            at = stack.index(node)
            found.append(stack[at:])
            del stack[at:]

    for node in graph:
        if node not in order:
            visit(node)
    return found


def largest(graph):
    return max(components(graph), key=len, default=[])


def within(graph, nodes):
    return {node: {to: graph[node][to] for to in graph[node] if to in nodes} for node in nodes}


def path(graph, start, wanted):
    """The shortest path of at least one edge from @start to a node in @wanted."""
    came, queue = {}, collections.deque([start])
    while queue:
        node = queue.popleft()
        for other in sorted(graph[node]):
            if other in came:
                continue
            came[other] = node
            if other in wanted:
                way = [other]
                while way[0] != start or len(way) == 1:
                    way.insert(0, came[way[0]])
                return way
            queue.append(other)
    raise AssertionError(f"{start} reaches none of {wanted}")


def closed_walk(graph):
    """A walk that visits every node of a strongly connected graph and ends where it began."""
    walk = [min(graph)]
    while set(graph) - set(walk):
        walk += path(graph, walk[-1], set(graph) - set(walk))[1:]
    return walk + path(graph, walk[-1], {walk[0]})[1:]


def symbols(nm, objects):
    """{object: (defined, undefined)}"""
    found = {name: (set(), set()) for name in objects}
    for line in subprocess.check_output([nm, "-A", "-P", "-g", *objects], text=True).splitlines():
        name, _, rest = line.partition(": ")
        symbol, kind = rest.split()[:2]
        defined, undefined = found[name]
        (undefined if kind in "Uwv" else defined).add(symbol)
    return found


def uses(table):
    """{object: {object that it uses: one symbol of it}}"""
    home = {symbol: name for name, (defined, _) in table.items() for symbol in defined}
    graph = {name: {} for name in table}
    for name, (_, undefined) in table.items():
        for symbol in sorted(undefined & set(home)):
            graph[name].setdefault(home[symbol], symbol)
    return graph


def short(name):
    """a/CMakeFiles/mr_x.dir/ops/map.c.o is ops/map.c"""
    return name.split(".dir/")[-1].removeprefix("./").removesuffix(".o")


def explain(graph, size):
    best = min(sorted(graph), key=lambda name: len(largest(within(graph, set(graph) - {name}))))
    rest = len(largest(within(graph, set(graph) - {best})))
    walk = closed_walk(graph)
    steps = [f"    {short(a)} -> {graph[a][b]} -> {short(b)}" for a, b in zip(walk, walk[1:])]
    head = f"  a walk through all {size} (without {short(best)} the largest has {rest}):"
    return [head, *steps]


def judge(target, size, graph):
    """What is wrong with @target, if anything: a list of lines."""
    stated = STILL_LARGER.get(target, MOST)
    if size > stated:
        head = f"{target}: {size} objects in a cycle, at most {stated} are allowed"
        return [head, *explain(graph, size)]
    if target in STILL_LARGER and size < stated:
        change = f"write {size}" if size > MOST else "delete the row"
        return [f"{target}: {size} objects in a cycle, STILL_LARGER says {stated}: {change}"]
    return []


def check_oneself():
    """A ring of four is found and walked, and what only leads to it is left out."""
    ring = {"a": {"b": "1"}, "b": {"c": "2", "a": "5"}, "c": {"d": "3"}, "d": {"a": "4"}}
    ring["e"] = {"a": "6"}
    assert sorted(largest(ring)) == ["a", "b", "c", "d"]
    assert closed_walk(within(ring, set("abcd"))) == ["a", "b", "c", "d", "a"]
    assert len(largest({"a": {"b": "1"}, "b": {"a": "2"}, "c": {"a": "3"}})) == 2
    pairs = {"a": {"b": "1"}, "b": {"a": "2", "c": "3"}, "c": {"b": "4"}}
    assert closed_walk(pairs) == ["a", "b", "c", "b", "a"]


def main():
    check_oneself()
    nm, listed, wanted = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    wrong, seen = [], set()
    for line in listed.read_text().splitlines():
        target, *objects = line.split(";")
        if wanted and target not in wanted:
            continue
        seen.add(target)
        missing = [name for name in objects if not os.path.exists(name)]
        if missing:
            wrong.append(f"{target}: {short(missing[0])} is not built")
            continue
        graph = uses(symbols(nm, objects))
        found = largest(graph)
        print(f"{target}: {len(objects)} objects, {len(found)} in the largest cycle")
        wrong += judge(target, len(found), within(graph, set(found)))
    unknown = set(wanted or STILL_LARGER) - seen
    wrong += [f"{name}: there is no such archive" for name in sorted(unknown)]
    print("\n".join(["", *wrong] if wrong else ["", f"{len(seen)} archives"]))
    return 1 if wrong or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
