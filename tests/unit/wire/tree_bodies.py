"""One body of every kind of tree frame, with every field filled."""

from mesh.model.tree_frames import (
    Body,
    Bulk,
    Bye,
    Cause,
    ColourSpread,
    Edge,
    EdgePhase,
    GetTrees,
    Grant,
    Heal,
    HealNotice,
    Hello,
    KnownInstance,
    KnownRole,
    Options,
    Ping,
    Pong,
    Publish,
    RecoveryAnswer,
    RecoveryDone,
    RecoveryRequest,
    Reopen,
    Reply,
    ReplyKind,
    RouteBreak,
    Send,
    Trees,
)
from mesh.model.trees import Address, Colour, Extent, Ids, tree_id

IDS = Ids(0x0123456789ABCDEF)
TREE = tree_id("desk-7")
COLOUR = Colour(5, IDS.fresh())
PUBLISH = Publish(
    IDS.fresh(), TREE, "pricing", IDS.instance(9), True, True, 3, 2, True, Extent.CLOUD
)
GRANT = Grant(Address(TREE, "pricing"), IDS.instance(9), True, True, 4, Extent.REALM, "v2")
KNOWN = KnownInstance(IDS.instance(9), True, 3, 2)
BODIES: list[Body] = [
    Hello("6f1c2a5e-0d3b-4c86-9f27-5b8e1d4a7c90", 7, (3 << 32) | 1, "asia", COLOUR, None, 9),
    Bye(),
    Ping(1_234_567),
    Pong(1_234_567),
    PUBLISH,
    Bulk((PUBLISH, PUBLISH)),
    RecoveryRequest(IDS.fresh(), TREE, "pricing", Extent.REALM, IDS.fresh(), 4),
    RecoveryAnswer(IDS.fresh(), IDS.instance(9), False, 12, 3, Extent.CLOUD),
    RecoveryDone(IDS.fresh(), ok=False),
    Edge(TREE, EdgePhase.ASK),
    RouteBreak(TREE, "pricing", Extent.CLOUD, IDS.instance(9)),
    Send(
        IDS.fresh(), TREE, "pricing", IDS.instance(9), "v2", Options(one_instance=True),
        b"\x00head", b"\xffload", True, False, 6, IDS.instance(10),
    ),
    Reply(IDS.fresh(), ReplyKind.DATA, True, (b"one", b""), Cause.LINK_DOWN, GRANT),
    Reopen(IDS.fresh()),
    ColourSpread(Extent.REALM, COLOUR),
    Heal(IDS.fresh(), Extent.CLOUD, "b", "c", COLOUR),
    HealNotice(Extent.CLOUD, COLOUR),
    GetTrees(IDS.fresh()),
    Trees(IDS.fresh(), COLOUR, (KnownRole(TREE, "pricing", True, (KNOWN, KNOWN)),)),
]  # fmt: skip

OTHER = Colour(4, IDS.fresh())
SIDES: list[Body] = [
    Heal(IDS.fresh(), Extent.CLOUD, "b", "c", COLOUR, COLOUR, OTHER),
    HealNotice(Extent.CLOUD, COLOUR, OTHER, COLOUR),
]
"""Those that say in `ext` what the colours of both sides were."""

HOPS: list[Body] = [RecoveryDone(IDS.fresh(), ok=True, hop_ms=1_500)]
"""Those that say in `ext` what hops take."""

HAD: list[Body] = [
    Reply(IDS.fresh(), ReplyKind.GRANT, False, grant=GRANT, had=(IDS.fresh(), IDS.fresh()))
]
"""Those that say in `ext` what an instance has had that moves."""
