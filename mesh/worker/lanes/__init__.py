"""The lanes that a worker owns: found, taken, fed, let go."""
