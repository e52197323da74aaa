"""Do lanes keep much of what will not come again? Spec: K12."""

from __future__ import annotations

from collections.abc import Collection

from mesh.errors import TransportError
from mesh.model.counted import counted
from mesh.operate.doctor.checks import Category, Check, Result, first_of, judged
from mesh.operate.doctor.examination import Examination
from mesh.operate.links.former_neighbours import chains_of_deleted_topics, former_neighbours

KEPT_MAX = 1_000
"""Records of a node that are nothing to see to: some hundred bytes each, on disk and in memory."""


def check_kept(at: Examination, node: str) -> Check:
    """Return how much a node's lanes keep of former neighbours, and of topics that were deleted.

    They forget none of it on a guess, so that what comes back is neither lost nor doubled.
    """
    report = at.reports().of(node)
    former = former_neighbours(at.topology, report, node)
    of_former = sum(one.records for one in former)
    existing = _topic_ids(at)
    chains = chains_of_deleted_topics(at.topology, report, node, existing) if existing else 0
    kept, hints = [], []
    if former:
        names = first_of(one.name for one in former)
        kept.append(f"{counted(of_former, 'record')} of former neighbours ({names})")
        hints.append(
            f"delete the outboxes of those that never come back, then `mesh node forget {node} "
            f"{former[0].name}`, and so on"
        )
    if chains:
        kept.append(f"{counted(chains, 'record')} of deleted topics on links")
        hints.append("those of deleted topics end with the outbox of their link: see operations.md")
    text, is_much = "; ".join(kept), of_former + chains > KEPT_MAX
    return judged(
        Category.LANES,
        f"lanes of {node} keep little of what is gone",
        text if is_much else "",
        "; ".join(hints),
        result=Result.WARNING,
        note="" if is_much else text,
        figures={"former_neighbours": of_former, "deleted_topics": chains},
    )


def _topic_ids(at: Examination) -> Collection[bytes]:
    """Return the ids of all topics of the mesh; none if some of them cannot be seen."""
    try:
        return {one.topic_id for kafka in at.kafka for one in at.infos(kafka).values()}
    except TransportError:
        return ()  # reported by the checks of kafka
