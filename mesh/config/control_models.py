"""The shape of `spec.interest` of a Mesh file; its rules are in `control_rules`. Spec: EMS-11."""

from __future__ import annotations

from pydantic import Field

from mesh.config.shapes import StrictModel


class InterestSpec(StrictModel):
    """One control of interest at one node: `static` or `local`."""

    node: str = Field(description="Where it is in force.")
    static: str | None = Field(
        None, description="Filter that is always wanted there, although no client wants it."
    )
    local: str | None = Field(
        None, description="Filter of subjects that cross no link of the node, in either direction."
    )
