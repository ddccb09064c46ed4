"""Settings: a YAML file and PENSTOCK_ variables, validated as a whole."""

from services.settings.job import JobSettings
from services.settings.load import SettingsError, load_settings
from services.settings.root import Settings

__all__ = ["JobSettings", "Settings", "SettingsError", "load_settings"]
