"""`python -m tests.bench.hostile`: what a new subject costs where a client has hostile filters.

16,384 filters, each with wildcards at other places than all others, of one endpoint; and for queues
as many as nodes take: 64 shapes each, of 4 nodes. A subject that was routed before costs nothing of
that. How many steps it takes is held by `tests/property/test_matcher.py`.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterator

from mesh.core.interest import Member
from mesh.core.queues import QUEUE_SHAPES_MAX, Attractions
from mesh.core.routes import PUBLISHED_HERE
from mesh.core.routing import Router
from mesh.model.control import Interest
from mesh.model.frames import MessageClass
from mesh.model.queues import Attraction, MemberKind

LEVELS, SUBJECTS, NODES = 14, 2_000, 4
GOAL_MS = 0.1


def _filters(levels: int) -> Iterator[str]:
    letters = (chr(97 + at) for at in range(levels))
    return ("/".join(choice) for choice in itertools.product(*((one, "*") for one in letters)))


def _ms_each(ask: Callable[[str], object]) -> float:
    levels = "/".join(chr(97 + at) for at in range(LEVELS - 1))
    begin = time.process_time()
    for number in range(SUBJECTS):
        ask(f"{levels}/{number}")
    return 1000 * (time.process_time() - begin) / SUBJECTS


def main() -> int:
    """Measure both, and say so."""
    router, queues = Router([]), Attractions()
    for filter_ in _filters(LEVELS):
        router.table.put(filter_, Member("", "hostile"), Interest())
    shapes = list(itertools.islice(_filters(LEVELS), 0, 2 * QUEUE_SHAPES_MAX, 2))
    for node in "abcd"[:NODES]:
        for filter_ in shapes:
            queues.add(Attraction("q", node, MemberKind.ANY, f"{filter_[:-1]}{node}"))
    channel = _ms_each(lambda one: router.route(one, PUBLISHED_HERE, MessageClass.GUARANTEED))
    queue = _ms_each(queues.matching)
    sys.stdout.write(f"{2**LEVELS:,} hostile filters: {channel:.3f} ms per new subject\n")
    sys.stdout.write(f"{len(shapes)} shapes of queues: {queue:.3f} ms per new subject\n")
    return int(max(channel, queue) > GOAL_MS)


if __name__ == "__main__":
    sys.exit(main())
