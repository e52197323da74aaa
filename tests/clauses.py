"""What each clause demands, in a sentence: the second column of docs/spec-map.md.

`K` are rules of the wire and of the protocols between nodes, `R` of reliability, `K-` of what Kafka
itself does, `PAT` of the tree layer, `H` of what hardens it, `I` and `Q` what never breaks there, at
any time and while all is quiet. Those that examples show stand in examples/README.md and are read
there.
"""

from __future__ import annotations

WIRE = {
    "K1": "A node writes only to its own Kafka cluster and reads those of its neighbours.",
    "K2": "The partitions of every data topic of a node are a multiple of its lanes, and the mesh "
    "never adds any: so each has one lane as its writer.",
    "K3": "Partition i of a source goes to partition i mod P of every target, which keeps order.",
    "K4": "A node's identity and epoch are on its control topic, and every taking of lane 0 "
    "raises the epoch; Kafka clusters and topics are known by the ids that brokers report.",
    "K5": "Guaranteed data are deleted by the node that owns the topic, and only when their "
    "reader passed them long enough ago; nobody takes the create time of a client for a clock.",
    "K6": "One limit of size for the whole mesh is checked at the ingress; topics of the mesh "
    "allow more, and frames close far below it.",
    "K7": "The header `mesh-subject` alone addresses a message: without a valid one it is a dead "
    "letter, other headers named `mesh` are removed and counted, and the rest is untouched.",
    "K8": "A delivery is the client's record with two headers more: the subject, and what the "
    "mesh knows of it (identity, path, class).",
    "K9": "A message is known by topic id, partition, generation and offset of its ingress; the "
    "generation rises only where an operator accepts that a log was truncated.",
    "K10": "A frame is a record with a header as its key and messages of one source as its value; "
    "what a reader may overlook is kept in `ext`, and an unknown major version is named.",
    "K11": "Each frame says which offset its sender sent before it: so a reader knows repeats, "
    "which it drops, and gaps, which it asks to have repaired.",
    "K12": "Positions, chains and holds are committed in the transaction of the copies, and only "
    "those that changed.",
    "K13": "A subscription is a record of key `endpoint filter` on the node's `clients` topic; "
    "its offset is its version, and an endpoint has one kind and one class.",
    "K14": "Lane k owns the partitions i with i mod lanes = k of everything that its node reads.",
    "K15": "Workers share lanes as members of a consumer group that reads nothing; data are read "
    "by consumers with assigned partitions, and lanes that stay run on through a rebalance.",
    "K16": "Who takes a lane first fences its former owner, then reads its progress to the end, "
    "and raises its epoch; who owns lane 0 writes the control topics, adverts with their mark.",
    "K17": "A lane commits when it has nothing more to read, when a batch is full, or after "
    "100 ms; the lanes of a worker commit side by side.",
    "K18": "The copies of direct messages are never doubled: their position is committed before "
    "they are written, and frames of a former owner are dropped by its epoch.",
    "K19": "While a node is down its guaranteed interest stays in force and messages for it wait; "
    "direct ones are discarded and counted.",
    "K20": "A target that refuses records is left out, and caught up by transactions of their own "
    "while the lane goes on for the others.",
    "K21": "A node keeps what each neighbour wanted when that was proven last; for guaranteed "
    "messages it holds after a start that cannot reach the neighbour, until something is proven.",
    "K22": "Interest is advertised per zone or link, what is own and what is foreign apart, each "
    "with versions of its own.",
    "K23": "A mark tells version, count and hash of what is offered: a reader that comes to the "
    "same has all of it, and nothing is taken away without that proof.",
    "K24": "A neighbour acknowledges which version is in force and which is complete in all that "
    "lies behind it, and names the links that are still missing.",
    "K25": "Interest is offered onward only when every lane has committed from where it holds; "
    "from these positions the auditor knows what must be delivered, and what may be.",
    "K26": "Wildcards match nothing that begins with `$`; each node's address travels as "
    "interest, so that a second way to the same node shows.",
    "K27": "A new link carries no data until all who are concerned have seen it; of links that "
    "make a loop the one with the highest version and id stays shut.",
    "K28": "When a walk moves, those who publish on it hold until the old link has drained; that "
    "pause is measured, and there is no other.",
    "K29": "A certificate compares count and digest of what an endpoint must have of a block of "
    "offsets with what it has; around a change of interest single messages are compared.",
    "K30": "A message is missing only when every hop's progress has passed it; until then it is "
    "waiting, however long that takes.",
    "K31": "What must be delivered is computed from ingress, `clients` and cuts, with a matcher "
    "of the auditor's own.",
    "K32": "A neighbour that misses ten heartbeats is down; a split is told when the nodes that "
    "still beat form more parts than before, within which they hear each other, a heal when "
    "fewer.",
}

SEAMS = {
    "K-1": "Offsets that transactions or compaction leave unused are no loss; a log that begins "
    "later than where a reader stands is one.",
    "K-2": "A topic that was deleted and recreated is another one: what is known of repeats in "
    "the former counts for nothing.",
    "K-3": "Repeats are told per source, never by the last offset that came over a link.",
    "K-4": "Only committed records are read.",
    "K-5": "A consumer group that is empty, dead, or has lost its offsets is told apart: it "
    "attracts nothing to its queue, and an endpoint keeps what it may want.",
    "K-6": "Partitions that somebody adds to a source are read, and nothing written moves.",
    "K-7": "Once a lane has been taken, its former owner writes nothing more.",
    "K-8": "A removal that is read before its addition leaves no wrong number behind.",
    "K-9": "A copy that the mesh has written attracts nothing, and is not forwarded again because "
    "of its subject.",
    "K-10": "Where the mesh itself is a member of a group, it is nobody's interest.",
    "K-11": "Headers of the mesh that a client forges are removed at the ingress.",
    "K-12": "An auditor that starts again from its checkpoint counts nothing twice, and begins "
    "new topics at their first offset.",
}

RELIABILITY = {
    "R1": "A partition of a link's topic has one writer, and guaranteed and direct messages share "
    "neither topic nor writer.",
    "R2": "Partitions are assigned, and a lane keeps one transactional id through all its owners: "
    "the next one fences the last, and ends a transaction that would hide records.",
    "R3": "After a commit of which a request was repeated, late or lost, the writer is thrown "
    "away, and the next one reads what was committed.",
    "R4": "What is torn or lost between two nodes shows in the chain, and is sent again as long "
    "as the sender's source has it.",
    "R5": "How far a source is read, and of which topic that is, is committed on the node's own "
    "Kafka cluster with what came of it, and where nothing did.",
    "R6": "No reader jumps where its position is outside the log: a guaranteed source stops and "
    "names the range until an operator accepts it, a direct one counts and goes on.",
    "R7": "After a failed transaction a lane forgets what it had in hand and goes on from what is "
    "committed; of a fatal error nobody believes that it committed nothing.",
    "R8": "Control topics are written in transactions by the owner of lane 0, and readers take "
    "only what is not older than what they have.",
    "R9": "Who a node is and its epoch stand on its own control topic: no folder can be lost.",
    "R10": "A message that comes back to a node that it has visited, or has a path longer than "
    "there are nodes, is a dead letter that names the loop.",
    "R11": "Headers of the mesh are the mesh's: a client's are removed, and a frame counts only in "
    "the outbox of who sent it.",
    "R12": "Nothing is dropped without a reason that is counted, and a guaranteed message that is "
    "refused leaves a dead letter; no record ends a process again and again.",
    "R13": "Key, headers and value of a message have one limit together, and topics of the mesh "
    "have room for what the mesh adds.",
    "R14": "Everything that waits has a limit; a link or endpoint that is full waits alone, and "
    "whoever is concerned is told.",
    "R15": "`mesh doctor` checks what the promises rest on: replication, settings of topics, "
    "rights, identities and versions.",
    "R16": "Settings of the Kafka client on which exactly-once rests are fixed, as how long a "
    "transaction may stay open.",
    "R17": "Checks stay on in production: what contradicts itself is told, costs the record that led "
    "there at most, and nothing goes on from a state that is broken.",
    "R18": "Colours have an order, and the greater is taken: each part comes to one, and two parts "
    "that meet are one heal, whichever end saw it.",
    "R19": "What a later minor version adds is handed on untouched; a major version that is not "
    "known stops its link by name; bytes that were ever written are still read.",
}

TREES = {
    "PAT-1": "How a message of a role goes on: to the routes of the role where all are known, "
    "else along the tree, else everywhere, and never back where it came from.",
    "PAT-2": "A sender keeps one route for all instances behind a link, and each gets the message "
    "once.",
    "PAT-3": "A message that comes a second time is dropped, and the route that brought it is cut.",
    "PAT-12": "Applications that ask for it are told once of each split and each heal.",
}

HARDENINGS = {
    "H1": "A role without routes is never complete.",
    "H2": "Each instance has its sequence and hops; what is newest wins, tombstones too.",
    "H3": "Publishes reach every node.",
    "H4": "Recoveries ask every node.",
    "H5": "A recovery ends by echo; one that is cut short certifies nothing.",
    "H6": "Taking part in the recovery of another certifies nothing.",
    "H7": "For shared roles the word of one complete responder is not enough.",
    "H8": "A recovery certifies the state at its start.",
    "H9": "Messages under way, or just closed, go over routes that come late.",
    "H10": "A dead end recovers once before it is called stale.",
    "H11": "What leads back to a sender belongs to a session of the link.",
    "H12": "Duplicates, stale routes and ends without an answer are accounted for.",
    "H13": "Both ends of a link detect a heal, once per session.",
    "H14": "A node takes a colour on first use.",
    "H15": "Exclusive roles are published again after a heal; who publishes a lower one is told.",
    "H16": "Realms have a map and a colour of their own.",
    "H17": "Routes are installed over live links only.",
    "H18": "A send to one instance tries the next route, and recovers once, before it gives up.",
    "H19": "Hops are limited.",
    "H20": "A directed recovery is used only where nothing has moved since the heal.",
    "H21": "A list of heals that grows too long is given up, and everything recovers.",
}

INVARIANTS = {
    "I1": "A message comes to an instance at most once.",
    "I2": "A sender that lives sees one last answer, and nothing after it.",
    "I3": "Nothing is left when all is quiet.",
    "I4": "Each question of a recovery has one echo at most, and whoever began it comes to an end.",
    "I5": "A send to one instance is delivered once at most.",
    "I6": "There are no more answers than deliveries give, and as many where nothing was lost.",
    "I7": "The routes to an instance lead from node to node and never round.",
    "I8": "Each route leads over a link that is up and has an edge, as each edge's link is up.",
    "I9": "Nobody has a route to an instance of its own.",
    "I10": "The same inputs give the same outputs.",
    "Q1": "A send reaches exactly the instances that can be reached, or one answer says there is "
    "none.",
    "Q2": "Within a realm the same holds of what can be reached inside.",
    "Q3": "A send to one instance reaches one, if there is any.",
    "Q4": "One response is one answer with all that was said.",
    "Q5": "The nodes of a part have one colour, and two parts never the same.",
    "Q6": "An exclusive role has one holder in a part, and all ways lead there.",
    "Q7": "After a heal the first holds across both sides, without any publish.",
    "Q8": "It holds after any trees were forgotten.",
    "Q9": "A reply takes the way of its message back, hop for hop.",
    "Q10": "Identical sends soon cause no traffic but their own.",
    "Q11": "Two sends of one sender arrive in order where routes stay as they are.",
    "Q12": "An edge is one at both its ends, and goes when neither has a route over it.",
}

OTHERS = {
    "EMS-0": "A topology is legal if no source reaches a node by two walks, or itself by one.",
}

TOLD = {
    **WIRE,
    **SEAMS,
    **RELIABILITY,
    **TREES,
    **HARDENINGS,
    **INVARIANTS,
    **OTHERS,
}

ARGUED: dict[str, str] = {}
"""Clauses that nothing can break yet, and the decision in `docs/adr` that says why."""
