"""What a person should know of the training of forecasting models, when it happens."""

from __future__ import annotations

from services.controller.views.forecast import TrainingView


class TrainingNews:
    """Tells each change once, in words."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def news(self, training: TrainingView | None) -> list[str]:
        """What changed since the last look; nothing where a light model forecasts alone."""
        if training is None:
            return []
        words = [training.advice, training.fault]
        if training.phase == "running" and not training.version:
            words.append("training the forecasting models in the background; light models serve meanwhile")
        if training.version:
            words.append(f"trained models serve now: {', '.join(training.models)}")
        if training.rejected:
            words.append(f"rejected, worse than light models on the last day: {', '.join(training.rejected)}")
        fresh = [word for word in words if word and word not in self._told]
        self._told.update(fresh)
        return fresh
