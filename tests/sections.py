"""What the sections of the design documents say, in a sentence: the second table of the spec map.

The documents are read by who designs the mesh; code and tests name their sections after `Spec:`.
"""

from __future__ import annotations

DESIGN = {
    "DESIGN 1": "The product: a message published anywhere reaches those who want it, crosses each "
    "link once, and Spark proves it.",
    "DESIGN 2": "One word, one meaning: docs/glossary.md.",
    "DESIGN 3": "Nodes, links, zones and joins; the forwarding table by kind of zone; one walk at "
    "most from any source to any node, or the topology is refused.",
    "DESIGN 4": "The six ground rules.",
    "DESIGN 4.1": "A node writes to its own Kafka cluster only, and reads those of its neighbours.",
    "DESIGN 4.2": "What decides is pure, `step(input) -> effects`; the shell around it is thin. State "
    "changes by facts, which are what is written, so recovery is the same fold as life.",
    "DESIGN 4.3": "Sets, epochs and versions; never counters, wall clocks or names.",
    "DESIGN 4.4": "Nothing disappears silently: each message that goes no further has one reason, and "
    "each loss is counted or announced with its range.",
    "DESIGN 4.5": "The auditor is a second opinion: it shares schemas and names with the mesh, and "
    "none of its decisions.",
    "DESIGN 4.6": "Whatever a stranger writes is data: no record, name or refusal ends a process, or "
    "holds up what it does not concern.",
    "DESIGN 5": "On Kafka: outboxes are pulled, link records are frames, one transaction holds copies "
    "and positions, interest is proven by marks.",
    "DESIGN 6": "Guaranteed: exactly once and in order, or the link stops and names the range. "
    "Direct: at most once, each loss counted. Queues: four policies.",
    "DESIGN 7": "The auditor, the API and the page: who reads what, and believes whom.",
    "DESIGN 8": "The lab: one scenario file, the same result on the simulator and on real brokers.",
    "DESIGN 9": "The rooms of the code; imports point downwards only.",
    "DESIGN 10": "The parts, and how each is started: brokers, Spark, containers, chart.",
    "kafka.md 1": "Every topic of the mesh: its name, its settings, who writes and who reads it.",
    "kafka.md 2": "Records: ingress, frames, deliveries, control.",
    "lab.md 1": "Scenario files: steps, faults and what is expected.",
    "lab.md 2": "The result as JSON: counts, transfers, deliveries, reasons, audit.",
    "lab.md 3": "The commands that judge topology files.",
    "lab.md 5": "The tree layer in scenario files: roles, sends, parts and colours.",
}

TREE_LAYER = {
    "tree_layer 0": "Where the rules come from, and what simulations have shown of each.",
    "tree_layer 2": "A node is `step(input, now) -> outputs`, without clock, socket or chance.",
    "tree_layer 3": "What a node keeps: trees, roles, routes, records, recoveries, events.",
    "tree_layer 4": "The messages between nodes.",
    "tree_layer 5.1": "Scopes of a flood, and what it falls back to.",
    "tree_layer 5.2": "Publish: how it spreads, and the install rule (the newest sequence, then the "
    "fewest hops, wins).",
    "tree_layer 5.3": "Unpublish spreads as publish does, and leaves a tombstone.",
    "tree_layer 5.4": "Exclusive roles: one holder, the highest instance wins; the polite way to "
    "acquire one.",
    "tree_layer 5.5": "Many roles at once travel as one message per link.",
    "tree_layer 5.6": "Edges of a tree: how they come and go.",
    "tree_layer 5.7": "When the routes of a role are known to be complete.",
    "tree_layer 5.8": "Recovery: routes are rebuilt when somebody sends, and never before.",
    "tree_layer 5.9": "What a lost link does to routes.",
    "tree_layer 5.10": "Hop times, and how long a recovery may take.",
    "tree_layer 5.11": "Stale routes: a dead end is tried once more, and then taken back.",
    "tree_layer 5.12": "Cycles: the second copy is dropped and accounted for.",
    "tree_layer 5.13": "A role moves by a reply that grants it and gives it up.",
    "tree_layer 5.14": "Realms: sends that stay inside, and a map of their own for them.",
    "tree_layer 5.15": "Trees that nobody used for longest are forgotten, and rebuilt on use.",
    "tree_layer 5.16": "Joining: how a node that starts gets on all trees.",
    "tree_layer 6": "The router: sends, replies, listeners.",
    "tree_layer 6.1": "Which options of a send go together.",
    "tree_layer 6.2": "Forwarding a send: local first, then each route once.",
    "tree_layer 6.4": "Replies: exactly one is the last, and every branch is accounted for.",
    "tree_layer 6.5": "Which replies are refused.",
    "tree_layer 6.6": "Routes that come while a message is under way get it too.",
    "tree_layer 6.7": "Which listener gets a message.",
    "tree_layer 6.8": "Snooping: continue, suspend, consume.",
    "tree_layer 6.9": "What a lost link does to messages under way: a null for each branch.",
    "tree_layer 6.10": "What is too old is swept.",
    "tree_layer 7.1": "Colours: one for each part of a mesh that was cut.",
    "tree_layer 7.2": "A heal is detected from the colours of both ends, once per session of a link.",
    "tree_layer 7.3": "After a heal a role is recovered before it is used.",
    "tree_layer 7.4": "What listeners are told of splits and heals.",
    "tree_layer 7.5": "Trees that every node is on: all nodes, realms, each node alone.",
    "tree_layer 8": "What applications call, and what they are answered.",
    "tree_layer 9": "Faults of the source, with a counter-example for each hardening `H`.",
    "tree_layer 10": "The invariants `I` and `Q`.",
    "tree_layer 11": "Fifty-six scenarios.",
    "tree_layer 12": "On Kafka: a topic per directed link, sessions, fencing, failure detection.",
    "tree_layer 13": "Rulings that win over the sections before them.",
}

SECTIONS = {**DESIGN, **TREE_LAYER}
