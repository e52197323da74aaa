"""Faults that are known and stay until the lane is designed anew, one file each, run as failing."""
