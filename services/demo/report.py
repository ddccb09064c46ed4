"""What a demo run came to, for scripts and for people."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from services.demo.tally import Tally
from shuffler.lease import Progress


@dataclass(frozen=True, slots=True)
class DemoReport:
    """The figures of one run. `auc` and what goes with it are None where nothing was learned."""

    produced: int
    trained: int
    repeated: int
    lost: int
    late_share: float
    accumulated_lag: float
    downtime_s: float
    gpu_hours: float
    gpu_utilisation: float
    resizes: int
    grown: int
    shrunk: int
    workers_min: int
    workers_max: int
    workers_lost: int
    worst_lag_s: float
    auc: float | None
    """Test-then-train, over the latest samples of every worker."""
    hidden_auc: float | None
    """That of the model which made the latest clicks: no trainer can do better for long."""
    logloss: float | None
    sample_age_s: float | None
    """From a click to its being trained, on the average over the latest."""
    orphans: int
    held_ticks: int
    decisions: dict[str, int]
    forecast_model: str | None
    """The model that led the forecasts in the end."""
    forecast_score: float | None
    """Pinball loss at 0.95 of what was served lately, over the mean rate."""
    forecast_models: dict[str, int]
    """Decisions by the model that led the forecast behind them."""
    forecast_resizes: dict[str, int]
    """Resizes by the same."""
    minutes: float
    seed: int

    @classmethod
    def of(
        cls,
        tally: Tally,
        progress: Progress,
        *,
        produced: int,
        orphans: int,
        minutes: float,
        seed: int,
        hidden_auc: float | None = None,
        before: Progress | None = None,
    ) -> DemoReport:
        """Figures from the ticks and from the ledger, which counts every sample once.

        What became of the samples is told of all; shares are of those trained after `before`.
        """
        late = progress.late - (before.late if before else 0)
        trained = progress.trained - (before.trained if before else 0)
        return cls(
            produced=produced,
            trained=progress.trained,
            # What was rewound for a lost shard was trained once more in full.
            repeated=progress.repeated + max(0, progress.trained + progress.lost - produced),
            lost=progress.lost,
            late_share=late / trained if trained else 0.0,
            accumulated_lag=tally.accumulated_lag,
            downtime_s=tally.downtime_s,
            gpu_hours=tally.gpu_hours,
            gpu_utilisation=tally.utilisation(trained),
            resizes=tally.resizes,
            grown=tally.grown,
            shrunk=tally.shrunk,
            workers_min=tally.workers_min or 0,
            workers_max=tally.workers_max,
            workers_lost=tally.lost_workers,
            worst_lag_s=tally.worst_lag_s,
            auc=tally.quality.auc if tally.quality else None,
            hidden_auc=hidden_auc,
            logloss=tally.quality.logloss if tally.quality else None,
            sample_age_s=tally.quality.sample_age_s if tally.quality else None,
            orphans=orphans,
            held_ticks=tally.held_ticks,
            decisions=dict(sorted(tally.reasons.items())),
            forecast_model=tally.forecast_model,
            forecast_score=tally.forecast_score,
            forecast_models=dict(sorted(tally.forecast_models.items())),
            forecast_resizes=dict(sorted(tally.forecast_resizes.items())),
            minutes=minutes,
            seed=seed,
        )

    def write(self, path: Path) -> None:
        """As one JSON object."""
        path.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    def table(self) -> Table:
        """For people."""
        table = Table(title="What the run came to", show_header=False, title_justify="left")
        late = round(self.late_share * self.trained)
        rows = {
            "samples in": f"{self.produced:,}",
            "samples trained": f"{self.trained:,}",
            "trained twice at most": f"{self.repeated:,}",
            "late": f"{late:,} ({self.late_share:.2%})",
            "worst lag": f"{self.worst_lag_s:.1f} s",
            "no training for": f"{self.downtime_s:.1f} s",
            "GPU-hours": f"{self.gpu_hours:.3f}",
            "GPU utilisation": f"{self.gpu_utilisation:.0%}",
            "resizes": f"{self.resizes} ({self.grown} up, {self.shrunk} down)",
            "workers": f"{self.workers_min} to {self.workers_max}, {self.workers_lost} lost and replaced",
            "AUC": _auc_words(self.auc, self.hidden_auc),
            "trained after the click": "-" if self.sample_age_s is None else f"{self.sample_age_s:.1f} s",
            "forecast by": ", ".join(f"{name} ({n})" for name, n in self.forecast_models.items()) or "nobody",
            "error at 0.95": "-" if self.forecast_score is None else f"{self.forecast_score:.2%} of the rate",
            "processes left behind": f"{self.orphans}",
        }
        for name, value in rows.items():
            table.add_row(name, value)
        return table


def _auc_words(auc: float | None, hidden_auc: float | None) -> str:
    if auc is None:
        return "-"
    return f"{auc:.3f}" + (
        "" if hidden_auc is None else f" (the model that made the clicks: {hidden_auc:.3f})"
    )
