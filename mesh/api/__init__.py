"""The HTTP API of a mesh and the page that stands on it. Reads topics only; changes nothing.

What it answers is made in `mesh.operate`, where the commands have it from; here is how it is asked:
paths, times, pages of lists, problems, the feed, and who may ask.
"""
