"""`python -m benchmarks.forecast_table`: the tables of docs/forecasting.md, from what the benchmark wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from benchmarks.forecast import BY_TRACE, COMPARED, overall
from forecasting.evaluation import SERVED

MIXED = ("patchtst", "shared-window", "window", "steady-window", "regression", "boosting")
UNTRAINED = ("last-value", "mean-max", "seasonal")
_HEAD = (
    "trace",
    SERVED,
    *MIXED,
    "best untrained",
    "served over best light",
    "rMAE over best light",
    "coverage",
    "volume",
)


def row_of(cells: list[str]) -> str:
    """
    >>> row_of(["a", "", "c"])
    '| a | | c |'
    """
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)


def served_rows(traces: dict[str, Any]) -> Iterator[str]:
    """What is served and what it mixes, trace by trace, those with the largest gain first."""
    yield row_of(list(_HEAD))
    yield "|" + "---|" * len(_HEAD)
    for name, trace in sorted(
        traces.items(), key=lambda item: item[1]["served_over_best_light"]["q95_pinball"]
    ):
        models, over = trace["models"], trace["served_over_best_light"]
        untrained = min(models[model]["q95_pinball"] for model in UNTRAINED if model in models)
        losses = [models[model]["q95_pinball"] if model in models else None for model in (SERVED, *MIXED)]
        yield row_of(
            [
                f"{name} ({trace['step_s'] / 60:g} min)",
                *(_percent(loss) for loss in [*losses, untrained]),
                f"{over['q95_pinball']:.3f}",
                f"{over['mae']:.3f}",
                f"{models[SERVED]['coverage']:.3f}",
                f"{models[SERVED]['volume']:.2f}",
            ]
        )
    whole = overall(traces)
    means = [whole[f"served_over_best_light.{which}"]["geometric_mean"] for which in ("q95_pinball", "mae")]
    last = [*means, whole["coverage_pooled"]]
    blank = [""] * (len(MIXED) + 2)
    yield row_of(["all", *blank, *(f"{mean:.3f}" for mean in last), f"{whole['volume_median']:.2f}"])


def compared_rows(traces: dict[str, Any]) -> Iterator[str]:
    """Networks that are not served: loss, error, coverage, and what training took."""
    yield row_of(["trace", SERVED, *COMPARED])
    yield "|" + "---|" * (2 + len(COMPARED))
    for name, trace in traces.items():
        models = trace["models"]
        yield row_of([name, *(_told(models.get(model)) for model in (SERVED, *COMPARED))])


def _told(figures: dict[str, Any] | None) -> str:
    if figures is None:
        return "not run"
    told = f"{_percent(figures['q95_pinball'])}, {100 * figures['mae']:.1f} %, {figures['coverage']:.3f}"
    if figures["train_cpu_s"] is None:
        return told
    ended = {True: ", converged", False: "", None: ""}[figures["converged"]]
    return f"{told}; {figures['train_cpu_s'] / 60:.1f} CPU-min{ended}"


def _percent(loss: float | None) -> str:
    """
    >>> _percent(0.01234), _percent(None)
    ('1.23 %', 'none')
    """
    return "none" if loss is None else f"{100 * loss:.2f} %"


def main() -> None:
    traces = json.loads(BY_TRACE.read_text(encoding="utf-8"))["traces"]
    print(*served_rows(traces), "", *compared_rows(traces), sep="\n")


if __name__ == "__main__":
    main()
