"""`python -m mesh` is the command `mesh`."""

from __future__ import annotations

from mesh.cli.main import main

if __name__ == "__main__":
    main()
