"""What every document that the controller shows has in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class View(BaseModel):
    """Read-only, documented by the text below each field."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)
