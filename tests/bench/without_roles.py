"""`python -m tests.bench.without_roles node run ...`: as `mesh`, with workers that host no roles."""

from __future__ import annotations

from mesh import __main__ as command
from mesh.worker import main

if __name__ == "__main__":
    setattr(main, "TREES", None)  # noqa: B010 - nothing of the mesh has such a switch
    command.main()
