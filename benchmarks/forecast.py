"""`make bench-forecast`: how good forecasts are, and what they cost.

Traces come from `PENSTOCK_TRACES`, else `../shared/data/traces`, else they are made up.
What is served mixes the models that a controller would have; NHITS, a Seq2Seq with
attention, and FEDformer until it has converged are trained and scored beside them. Every
result is written to `benchmarks/results/forecast_traces.json` when it is there, so that a
run can be ended and taken up again (`--again` starts over); all figures, one flat object,
to `benchmarks/results/forecast.json`.

    python -m benchmarks.forecast                    # all traces, all models
    python -m benchmarks.forecast --served-only      # what is served and what it mixes
    python -m benchmarks.forecast --trace isp_eu --also nhits --no-cost
"""

from __future__ import annotations

import argparse
import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.forecast_cost import measure_cost
from forecasting.evaluation import SERVED
from forecasting.heavy import installed
from forecasting.history import TrafficHistory
from services.forecaster.backtesting import DEFAULT_MODELS, BacktestPlan, run_backtest
from services.forecaster.report import summary_of
from services.forecaster.trace import read_trace

RESULTS = Path(__file__).parent / "results" / "forecast.json"
BY_TRACE = RESULTS.with_name("forecast_traces.json")
SHARED = Path("../shared/data/traces")
COMPARED = ("nhits", "seq2seq", "fedformer")
"""Networks that are scored beside what is served."""
CONVERGING_CPU_S = {"fedformer": 900.0}


def histories_at_hand() -> dict[str, TrafficHistory]:
    """Traces by name; two made-up ones where none are given."""
    where = Path(os.environ.get("PENSTOCK_TRACES", SHARED))
    found = {path.stem: read_trace(path)[0] for path in sorted(where.glob("*.csv"))}
    return found or {"made-up-minutes": _made_up(60.0, 14), "made-up-5-minutes": _made_up(300.0, 21)}


def _made_up(step_s: float, days: int) -> TrafficHistory:
    at = np.arange(round(days * 86_400 / step_s)) * step_s
    week = 1 + 0.2 * np.sin(2 * np.pi * at / 604_800)
    mean = 20 * week * (1.1 + np.sin(2 * np.pi * at / 86_400))
    return TrafficHistory(0.0, step_s, np.random.default_rng(0).poisson(mean * step_s) / step_s)


def days_to_test(history: TrafficHistory) -> float:
    """A week, or four days of a trace shorter than three weeks; four weeks of hours, of which one has few."""
    if history.step_s >= 3600 and history.span_s >= 112 * 86_400:
        return 28.0
    return 7.0 if history.span_s >= 21 * 86_400 else 4.0


def run_served(history: TrafficHistory, *, train_cpu_s: float) -> dict[str, Any]:
    """The figures of one trace: what is served, and every model that it mixes."""
    tested = run_backtest(history, _plan(history, DEFAULT_MODELS, train_cpu_s), _tell_nobody)
    return {"step_s": history.step_s, **summary_of(tested)}


def run_compared(history: TrafficHistory, model: str, *, train_cpu_s: float) -> dict[str, Any]:
    """The figures of one network that is not served, or why it was left out."""
    plan = replace(_plan(history, (model,), train_cpu_s), served=())
    summary = summary_of(run_backtest(history, plan, _tell_nobody))
    models = {name: figures for name, figures in summary["models"].items() if name == model}
    return {"models": models, "skipped": summary["skipped"]}


def _plan(history: TrafficHistory, models: tuple[str, ...], train_cpu_s: float) -> BacktestPlan:
    return BacktestPlan(
        test_days=days_to_test(history),
        models=models,
        network_cpu_s=train_cpu_s,
        converging_cpu_s=CONVERGING_CPU_S,
    )


def _tell_nobody(_stage: str, _share: float) -> None:
    pass


def overall(traces: dict[str, Any]) -> dict[str, Any]:
    """The figures that are asked for, over all traces."""
    served = [trace["models"][SERVED] for trace in traces.values()]
    covered = sum(s["coverage"] * t["origins"] for s, t in zip(served, traces.values(), strict=True))
    figures: dict[str, Any] = {
        "coverage_pooled": covered / sum(trace["origins"] for trace in traces.values()),
        "coverage_lowest": min(s["coverage"] for s in served),
        "volume_median": float(np.median([s["volume"] for s in served])),
        "volumes": {name: trace["models"][SERVED]["volume"] for name, trace in traces.items()},
    }
    for against in ("served_over_best_light", "served_over_best_untrained"):
        for which in ("q95_pinball", "mae"):
            ratios = {name: trace[against][which] for name, trace in traces.items()}
            mean = math.exp(sum(math.log(ratio) for ratio in ratios.values()) / len(ratios))
            figures[f"{against}.{which}"] = {
                "geometric_mean": mean,
                "highest": max(ratios.values()),
                **ratios,
            }
    return figures


def flat_of(results: dict[str, Any], at: str = "") -> dict[str, float]:
    """Every number of nested results, by the names on the way to it.

    >>> flat_of({"cost": {"a": 1.5}, "note": "text"})
    {'cost.a': 1.5}
    """
    flat: dict[str, float] = {}
    for name, value in results.items():
        if isinstance(value, dict):
            flat |= flat_of(value, f"{at}{name}.")
        elif isinstance(value, int | float):
            flat[f"{at}{name}"] = value
    return flat


def show(results: dict[str, Any]) -> None:
    """Tables for people."""
    for name, trace in results["traces"].items():
        print(f"\n{name} ({trace['step_s']:g} s, {trace['origins']} forecasts)")
        print(f"  {'model':<12} {'q95 pinball':>11} {'MAE':>7} {'coverage':>8} {'volume':>7} {'CPU-s':>6}")
        rows = sorted(trace["models"].items(), key=lambda item: (item[0] != SERVED, item[1]["q95_pinball"]))
        for model, row in rows:
            cost = "" if row["train_cpu_s"] is None else f"{row['train_cpu_s']:.0f}"
            cost += " converged" if row.get("converged") else ""
            print(
                f"  {model:<12} {100 * row['q95_pinball']:>10.2f}% {100 * row['mae']:>6.1f}% "
                f"{row['coverage']:>8.3f} {row['volume']:>7.2f} {cost:>6}"
            )
    print(json.dumps({"overall": results["overall"], "cost": results.get("cost")}, indent=2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trace", action="append", default=[], help="Only these traces.")
    parser.add_argument(
        "--also", action="append", default=[], help="A network to score beside what is served."
    )
    parser.add_argument("--served-only", action="store_true", help=f"Without {', '.join(COMPARED)}.")
    parser.add_argument("--train-cpu-s", type=float, default=60.0, help="CPU-seconds for each network.")
    parser.add_argument("--again", action="store_true", help="Do not take up an earlier run.")
    parser.add_argument("--no-cost", action="store_true", help="Do not measure retraining and serving.")
    options = parser.parse_args()
    compared = () if options.served_only or not installed("neuralforecast") else COMPARED
    also = tuple(dict.fromkeys([*options.also, *compared]))
    results: dict[str, Any] = {"traces": {}}
    if BY_TRACE.exists() and not options.again:
        results = json.loads(BY_TRACE.read_text(encoding="utf-8"))
    wanted = {
        name: history
        for name, history in histories_at_hand().items()
        if not options.trace or name in options.trace
    }
    for name, history in wanted.items():
        if name not in results["traces"]:
            results["traces"][name] = run_served(history, train_cpu_s=options.train_cpu_s)
            results["overall"] = overall(results["traces"])
            _write(results)
    for model in also:  # a network over all traces, then the next: a run that is ended leaves whole columns
        for name, history in wanted.items():
            _compare(results, name, history, model, train_cpu_s=options.train_cpu_s)
    if not options.no_cost:
        results["cost"] = measure_cost()
        _write(results)
    show(results)


def _compare(
    results: dict[str, Any], name: str, history: TrafficHistory, model: str, *, train_cpu_s: float
) -> None:
    """Add a network to a trace, unless an earlier run has it."""
    trace = results["traces"][name]
    if model in trace["models"] or model in trace["skipped"]:
        return
    found = run_compared(history, model, train_cpu_s=train_cpu_s)
    trace["models"] |= found["models"]
    trace["skipped"] |= found["skipped"]
    _write(results)


def _write(results: dict[str, Any]) -> None:
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    for path, content in ((BY_TRACE, results), (RESULTS, flat_of(results))):
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
