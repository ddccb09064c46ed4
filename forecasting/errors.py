"""What can go wrong between past and future traffic.

ForecastError
├── InvalidTraffic      a rate or a grid that cannot be
└── NotEnoughHistory    the model needs more past than there is; try a simpler one
"""


class ForecastError(Exception):
    """Anything that forecasting refuses."""


class InvalidTraffic(ForecastError, ValueError):
    """A rate or a grid that cannot be: negative, infinite, a step of zero."""


class NotEnoughHistory(ForecastError):
    """The model needs more past than there is."""

    def __init__(self, model: str, *, have_s: float, need_s: float) -> None:
        super().__init__(f"{model} needs {need_s:g} s of history, {have_s:g} s are known")
        self.model = model
        self.have_s = have_s
        self.need_s = need_s
