"""A judge of its own: what clients were told against what endpoints hold.

It shares no decision with the mesh or the auditor: its own filter matcher and its own walks. In
storms messages are told apart by their payload alone; what endpoints lack at the end of any
scenario it judges too, by steps in place of moments. Spec: reliability.md 4.
"""
