"""`python -m tests.bench.without_roles node run ...`: as `mesh`, with workers that host no roles."""

from __future__ import annotations

from mesh import __main__ as command
from mesh.worker import main
from mesh.worker.worker import Worker


def worker_without(*arguments: object, **options: object) -> Worker:
    """Return a worker as a process has it, but for its tree layer."""
    return Worker(*arguments, **{**options, "trees": None})  # type: ignore[arg-type]


if __name__ == "__main__":
    setattr(main, "Worker", worker_without)  # noqa: B010 - nothing of the mesh has such a switch
    command.main()
