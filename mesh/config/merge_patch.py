"""JSON merge patches, as RFC 7396 defines them. Spec: lab.md 1 (`apply`)."""

from __future__ import annotations

from collections.abc import Mapping


def merged(target: object, patch: object) -> object:
    """Return what a patch makes of a document; neither is changed.

    Mappings are merged key by key, null removes a key, and anything else stands for itself.
    """
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result
