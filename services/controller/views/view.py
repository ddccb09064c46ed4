"""What every document that the controller shows has in common."""

from __future__ import annotations

import math
from typing import Self

from pydantic import BaseModel, ConfigDict


class View(BaseModel):
    """Read-only, documented by the text below each field."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    @classmethod
    def like(cls, source: object) -> Self:
        """The document of something that has the same fields under the same names."""
        return cls.model_validate(source, from_attributes=True)


def finite(value: float) -> float | None:
    """JSON has neither infinities nor NaN."""
    return value if math.isfinite(value) else None
