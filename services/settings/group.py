"""What every group of settings has in common."""

from pydantic import BaseModel, ConfigDict


class SettingsGroup(BaseModel):
    """Frozen, strict about names, each field documented by the text below it."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)
