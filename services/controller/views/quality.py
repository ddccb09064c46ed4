"""How fresh, and how good, training has been, as a document."""

from __future__ import annotations

from services.controller.views.view import View


class QualityView(View):
    """How fresh, and how good, training has been."""

    trained: int
    late: int
    """Those that were late by their own timestamps, as the workers counted."""
    late_share: float
    """Share of the last week's samples that were late by their arrival; before the meter has counted
    any, the share by their own timestamps."""
    late_share_by_event_time: float | None = None
    """Share of all samples since the job began that were late by their own timestamps."""
    repeated: int
    """Samples that may have been trained twice."""
    lost: int
    auc: float | None = None
    """Test-then-train AUC, when the trainer reports it."""
    logloss: float | None = None
    """Test-then-train log loss, likewise."""
    sample_age_s: float | None = None
    """From the event to its being trained, on the average over the latest samples, likewise."""
    evaluated: int | None = None
    """How many of the latest samples these figures are of."""
    skipped_batches: int | None = None
    """Batches of the present workers whose loss was no number; they changed nothing."""
    rejected: int | None = None
    """Messages that the present workers put into the dead-letter topic."""
