"""The names under which a worker exports its figures to Prometheus, and what each means.

Labels are node, link, class, reason and state: never subjects, endpoints or partitions, whose
number grows with use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mesh.config.tls_certificates import end_s
from mesh.model.reasons import NotRead
from mesh.model.words import EndpointWord, LinkWord
from mesh.worker.http.figures import Figures
from mesh.worker.trees.service import TreeFigures

STATES = tuple(one for one in LinkWord if one not in (LinkWord.PAUSED, LinkWord.UNKNOWN))
"""States of links. A link is in exactly one."""

OWN = "ingress"
"""Names the node's own clients in place of a link."""


def link_name(one: str, other: str) -> str:
    """Return the name of the link between two nodes, the same at both ends."""
    return "-".join(sorted((one, other)))


class CertificateMetrics(Collector):
    """Reports when the certificates expire that a worker shows and trusts, as their files are now.

    Args:
        node: The node that the worker serves.
        files: Returns files by Kafka cluster; those without a certificate are left out.
    """

    def __init__(self, node: str, files: Callable[[], Mapping[str, Sequence[Path]]]) -> None:
        self._node = node
        self._files = files

    def collect(self) -> Iterator[Metric]:
        """Yield one figure per Kafka cluster with certificates."""
        ends = GaugeMetricFamily(
            "mesh_tls_certificate_end_seconds",
            "When the first certificate for a Kafka cluster ends, since 1970.",
            labels=["node", "kafka"],
        )
        for kafka, files in self._files().items():
            found = [end for end in map(_end_of, files) if end is not None]
            if found:
                ends.add_metric([self._node, kafka], min(found))
        yield ends


def _end_of(file: Path) -> float | None:
    try:
        return end_s(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


class WorkerMetrics(Collector):
    """Reports the newest figures of one worker.

    Args:
        node: The node that the worker serves.
        figures: Returns the newest figures.
        idle_s: Returns for how many seconds the loop has made no progress.
    """

    def __init__(
        self, node: str, figures: Callable[[], Figures], idle_s: Callable[[], float]
    ) -> None:
        self._node = node
        self._figures = figures
        self._idle_s = idle_s

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        now = self._figures()
        yield self._one("mesh_build", "Version of the worker.", version=_version(), suffix="_info")
        text = "Seconds since the worker's loop last went round."
        yield self._one("mesh_loop_idle_seconds", text, self._idle_s())
        yield self._one("mesh_node_ready", "1 if the node serves at this worker.", now.is_ready)
        yield self._one("mesh_node_leads", "1 if this worker leads the node.", now.leads)
        yield self._one("mesh_lanes_owned", "Lanes that this worker works on.", now.lanes)
        yield self._one("mesh_lanes_assigned", "Lanes assigned to this worker.", now.assigned)
        text = "Offsets of control topics that wait to be read."
        yield self._one("mesh_control_lag_records", text, now.control_behind)
        yield from self._of_links(now)
        yield from self._counted(now)
        if now.trees is not None:
            yield from self._of_trees(now.trees)

    def _of_links(self, now: Figures) -> Iterator[Metric]:
        up = self._family("mesh_link_up", "1 if a link is up.", "link", "zone")
        state = self._family(
            "mesh_link_state", "1 for the state that a link is in.", "link", "state"
        )
        filters = self._family("mesh_interest_filters", "Filters offered to this node.", "link")
        for link in now.links:
            name = link_name(self._node, link.neighbour)
            up.add_metric([self._node, name, link.zone], link.state == LinkWord.UP)
            for one in STATES:
                state.add_metric([self._node, name, one], link.state == one)
            filters.add_metric([self._node, name], now.filters.get(link.neighbour, 0))
        lag = self._family(
            "mesh_link_lag_records",
            "Offsets that wait to be read, transaction markers included.",
            "link",
        )
        for neighbour, offsets in now.behind.items():
            lag.add_metric([self._node, self._link(neighbour)], offsets)
        stops = self._family(
            "mesh_stopped_sources",
            "Partitions that are stopped: a loss waits to be accepted.",
            "link",
        )
        for neighbour, number in {"": 0, **now.stops}.items():
            stops.add_metric([self._node, self._link(neighbour)], number)
        unread = self._family(
            "mesh_unread_partitions", "Partitions not read although they could be.", "reason"
        )
        for why in NotRead:
            unread.add_metric([self._node, why], now.unread.get(why, 0))
        endpoints = self._family("mesh_endpoints_unwell", "Endpoints that need attention.", "state")
        for word in EndpointWord:
            if word is not EndpointWord.MISSING:  # no worker reports it
                endpoints.add_metric([self._node, word], now.endpoints.get(word, 0))
        yield from (up, state, filters, lag, stops, unread, endpoints)

    def _counted(self, now: Figures) -> Iterator[Metric]:
        accounts = now.accounts
        forwarded = self._counter("mesh_forwarded_messages", "Messages sent.", "link", "class")
        for (neighbour, kind), n in accounts.forwarded.items():
            forwarded.add_metric([self._node, self._link(neighbour), kind], n)
        frames = self._counter(
            "mesh_forwarded_frames", "Records that these messages filled.", "link", "class"
        )
        for (neighbour, kind), n in accounts.frames.items():
            frames.add_metric([self._node, self._link(neighbour), kind], n)
        kept = self._counter(
            "mesh_not_forwarded",
            "Messages that did not leave on a link.",
            "link",
            "reason",
            "class",
        )
        for (neighbour, reason, kind), n in accounts.not_forwarded.items():
            kept.add_metric([self._node, self._link(neighbour), reason, kind], n)
        delivered = self._counter("mesh_delivered_messages", "Messages to endpoints.", "class")
        for kind, n in accounts.delivered.items():
            delivered.add_metric([self._node, kind], n)
        dropped = self._counter("mesh_dropped", "Messages that went nowhere.", "reason")
        for reason, n in accounts.dropped.items():
            dropped.add_metric([self._node, reason], n)
        needless = self._counter(
            "mesh_widened_copies", "Copies sent only because a filter was widened.", "to"
        )
        for name, n in accounts.needless.items():
            needless.add_metric([self._node, name], n)
        yield from (forwarded, frames, kept, delivered, dropped, needless)
        for name, text, n in (
            ("mesh_commits", "Batches committed.", accounts.commits),
            ("mesh_lane_takings", "Lanes taken by this worker.", now.taken),
            ("mesh_control_refused", "Control records nobody could read.", now.refused),
            (
                "mesh_endpoint_pushed_out",
                "Messages of full endpoints that became dead letters.",
                now.pushed_out,
            ),
        ):
            counted = self._counter(name, text)
            counted.add_metric([self._node], n)
            yield counted

    def _of_trees(self, trees: TreeFigures) -> Iterator[Metric]:
        text = "Neighbours with whom frames are exchanged."
        yield self._one("mesh_tree_links_up", text, trees.links)
        text = "Applications that live at the node."
        yield self._one("mesh_tree_applications", text, trees.applications)
        kept = self._family("mesh_tree_kept", "What the tree layer keeps.", "state")
        for state, number in asdict(trees.size).items():
            kept.add_metric([self._node, state], number)
        yield kept
        for name, text, label, counts in (
            ("mesh_tree_frames", "Frames written.", "kind", trees.frames),
            ("mesh_tree_dropped", "Frames that meant nothing here.", "reason", trees.dropped),
            ("mesh_tree_refused", "Refused requests of applications.", "reason", trees.refused),
            ("mesh_tree_unread", "Frames and records nobody could read.", "kind", trees.unread),
        ):
            counted = self._counter(name, text, label)
            for value, n in counts.items():
                counted.add_metric([self._node, _label(value)], n)
            yield counted
        lost = self._counter("mesh_tree_lost", "Records that Kafka did not take.")
        lost.add_metric([self._node], trees.lost)
        yield lost

    def _link(self, neighbour: str) -> str:
        return link_name(self._node, neighbour) if neighbour else OWN

    def _one(
        self, name: str, text: str, value: float = 1, *, suffix: str = "", **labels: str
    ) -> Metric:
        family = self._family(name + suffix, text, *labels)
        family.add_metric([self._node, *labels.values()], value)
        return family

    def _family(self, name: str, text: str, *labels: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(name, text, labels=["node", *labels])

    def _counter(self, name: str, text: str, *labels: str) -> CounterMetricFamily:
        return CounterMetricFamily(name, text, labels=["node", *labels])


def _version() -> str:
    try:
        return version("trellis-mesh")
    except PackageNotFoundError:
        return "unknown"


def _label(reason: str) -> str:
    """Return a reason as the value of a label."""
    return reason.lower().replace(" ", "_")
