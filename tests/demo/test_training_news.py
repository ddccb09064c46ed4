"""A person at the demo hears of training when something happens, once."""

from __future__ import annotations

from services.controller.views.forecast import TrainingView
from services.demo.training_news import TrainingNews

STARTED = TrainingView(
    version="", models=[], phase="running", stage="reading", share=0.0, rejected=[], fault="", advice=""
)


def test_training_and_its_outcome_are_told_once_each() -> None:
    news = TrainingNews()
    done = STARTED.model_copy(update={"phase": "done", "version": "7", "models": ["regression", "patchtst"]})

    assert news.news(None) == []
    assert "light models serve meanwhile" in news.news(STARTED)[0]
    assert news.news(STARTED) == []
    assert news.news(done) == ["trained models serve now: regression, patchtst"]
    assert news.news(done) == []


def test_what_is_missing_and_what_failed_is_told() -> None:
    advice = "fedformer cannot be trained: torch is not installed; install it with: pip install ..."
    failed = STARTED.model_copy(update={"phase": "failed", "fault": "training was ended by SIGKILL"})

    assert TrainingNews().news(STARTED.model_copy(update={"phase": "idle", "advice": advice})) == [advice]
    assert TrainingNews().news(failed) == ["training was ended by SIGKILL"]
