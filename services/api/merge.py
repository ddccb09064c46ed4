"""JSON merge patch, RFC 7396."""

from __future__ import annotations

from typing import Any


def merged(target: Any, patch: Any) -> Any:
    """`target` with `patch` over it; null takes a field away.

    >>> merged({"slo": {"a": 1, "b": 2}, "c": 3}, {"slo": {"b": None, "d": 4}})
    {'slo': {'a': 1, 'd': 4}, 'c': 3}
    """
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result
