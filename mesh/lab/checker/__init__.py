"""A judge of its own: what clients were told against what endpoints hold.

It shares no decision with the mesh, the auditor or the lab's tally: its own filter matcher, its
own walks, and messages told apart by their payload alone. Spec: reliability.md 4.
"""
