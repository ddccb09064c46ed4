# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS := deploy/constraints.txt

# Small matrices, and as many processes as cores: threads of BLAS would only wait for one another.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Penstock needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.made pyproject.toml $(CONSTRAINTS)
	$(BIN)/pip install --disable-pip-version-check -c $(CONSTRAINTS) -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/pip install --disable-pip-version-check -c $(CONSTRAINTS) -e '.[dev]'
	@touch $@

.PHONY: install
install: $(VENV)/.installed ## Make .venv with .venv/bin/penstock.

.PHONY: demo
demo: install ## Run the whole loop on embedded Kafka and Redis.
	$(BIN)/penstock demo $(ARGS)

# Most of the long tests wait for processes rather than compute: one more worker than two cores pays.
WORKERS ?= 3

# Hundreds of short-lived processes, and every worker, would compile all sources anew.
test test-forecast: export PYTHONDONTWRITEBYTECODE =

.PHONY: test
test: $(VENV)/.installed-dev ## Run all tests.
	$(BIN)/pytest -n $(WORKERS) --dist worksteal --ignore tests/web --ignore tests/integration $(ARGS)
	$(BIN)/pytest -n $(WORKERS) tests/web # apart: the browser's driver keeps an event loop running, where others want their own

# Apart from .venv: whoever runs `make test` need not download gigabytes, and tests without them stay honest.
FORECAST_VENV := .venv-forecast

$(FORECAST_VENV)/.installed: pyproject.toml $(CONSTRAINTS)
	@echo "Installing torch and neuralforecast: some 6 GB on Linux, a few minutes."
	$(PYTHON) -m venv $(FORECAST_VENV)
	$(FORECAST_VENV)/bin/pip install --disable-pip-version-check -c $(CONSTRAINTS) -e '.[dev,forecast]'
	@touch $@

.PHONY: test-forecast
test-forecast: $(FORECAST_VENV)/.installed ## Test the models that need torch or neuralforecast; a skip fails.
	CI=true $(FORECAST_VENV)/bin/pytest -m forecast_extras --allowed-skips /dev/null \
	  tests/forecasting tests/laws tests/simulator/test_forecasters.py tests/trainer $(ARGS)

# The tests of ledger, store and meter contract on servers in containers, then the compose stack.
ON_CONTAINERS := tests/stream/test_redis_ledger.py tests/stream/test_ledger_contract.py tests/stream/test_stream.py \
  tests/store/test_state_stores.py tests/store/test_jobs.py tests/store/test_leadership.py tests/store/test_telemetry.py \
  tests/meter/test_contract.py

.PHONY: test-docker
test-docker: $(VENV)/.installed-dev ## Test on Kafka and Redis in containers, and the compose stack (needs a Docker engine).
	$(BIN)/pytest --kafka container --redis container -k 'not apache and not embedded' $(ON_CONTAINERS) $(ARGS)
	$(BIN)/pytest tests/integration $(ARGS)

# The first file alone: it takes all GPUs that there are, and restarts the API server. The rest mostly waits for pods.
.PHONY: test-kubernetes
test-kubernetes: $(VENV)/.installed-dev ## Test pool and manifests on the cluster of PENSTOCK_TEST_KUBECONFIG.
	@test -n "$$PENSTOCK_TEST_KUBECONFIG" \
	  || { echo "name a cluster to test on: PENSTOCK_TEST_KUBECONFIG=~/.kube/config make test-kubernetes" >&2; exit 1; }
	$(BIN)/pytest --timeout 600 tests/actuator/test_kubernetes_plane.py -m kubernetes $(ARGS)
	$(BIN)/pytest --timeout 600 -n 4 tests/actuator tests/deploy --ignore tests/actuator/test_kubernetes_plane.py -m kubernetes $(ARGS)

# Apart from .venv, as the forecasting models are.
RAY_VENV := .venv-ray

$(RAY_VENV)/.installed: pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv $(RAY_VENV)
	$(RAY_VENV)/bin/pip install --disable-pip-version-check -c $(CONSTRAINTS) -e '.[dev,ray]'
	@touch $@

.PHONY: test-ray
test-ray: $(RAY_VENV)/.installed ## Test the Ray pool on a local cluster of several nodes; a skip fails.
	CI=true RAY_USAGE_STATS_ENABLED=0 RAY_worker_niceness=0 $(RAY_VENV)/bin/pytest -m ray --allowed-skips /dev/null \
	  tests/actuator/test_pool_contract.py tests/actuator/test_ray_pool.py tests/actuator/test_ray_heads.py $(ARGS)

.PHONY: docs
docs: $(VENV)/.installed-dev ## Write the generated pages of docs/.
	$(BIN)/python -m services.settings.reference docs/configuration.md

.PHONY: check
check: $(VENV)/.installed-dev ## Format, lint, types and import contracts.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: format
format: $(VENV)/.installed-dev ## Rewrite the code as `make check` wants it.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: bench-policies
bench-policies: install ## Judge every policy on all traces (PENSTOCK_TRACES) and plants.
	$(BIN)/python -m benchmarks.policies $(ARGS)

.PHONY: bench-simulator-speed
bench-simulator-speed: install ## How fast the simulator is against plain Python.
	$(BIN)/python -m benchmarks.simulator_speed $(ARGS)

.PHONY: bench-forecast
bench-forecast: $(FORECAST_VENV)/.installed ## Score every forecaster on all traces (PENSTOCK_TRACES).
	$(FORECAST_VENV)/bin/python -m benchmarks.forecast $(ARGS)

.PHONY: bench-planner
bench-planner: install ## The planner's speed; ARGS=--frontier also runs it against HPA.
	$(BIN)/python -m benchmarks.planner $(ARGS)

.PHONY: bench-planner-parts
bench-planner-parts: install ## What each part of the planner is worth, and what the forecast costs.
	$(BIN)/python -m benchmarks.planner_parts $(ARGS)

.PHONY: bench-planner-peers
bench-planner-peers: install ## Penstock's frontier against that of every peer.
	$(BIN)/python -m benchmarks.planner_peers $(ARGS)

.PHONY: bench-planner-claims
bench-planner-claims: install ## Whether late_share_target is kept, and Kale's own claims beside HPA.
	$(BIN)/python -m benchmarks.planner_claims $(ARGS)

.PHONY: bench-first-hours
bench-first-hours: install ## Jobs without a past: their first hours, beside HPA and the reactive rule.
	$(BIN)/python -m benchmarks.first_hours $(ARGS)

.PHONY: bench-throughput
bench-throughput: install ## How far off the learned throughput is, against straight lines and a plain law.
	$(BIN)/python -m benchmarks.throughput $(ARGS)

.PHONY: bench-api
bench-api: install ## Latency of the API under load, while ticks stay on time.
	$(BIN)/python -m benchmarks.api $(ARGS)

.PHONY: bench-meter
bench-meter: install ## The meter on a real broker: poll time, CPU, error of rates and ages.
	$(BIN)/python -m benchmarks.meter $(ARGS)

.PHONY: bench-shuffler
bench-shuffler: install ## Leases beside Kafka's groups: rescale, CPU a record, balance, ledger (needs Java and Maven).
	$(BIN)/python -m benchmarks.shuffler $(ARGS)

.PHONY: bench-trainer
bench-trainer: install ## One worker and shard against plain loops, memory of a row, AUC (PyTorch's too where installed).
	$(BIN)/python -m benchmarks.trainer $(ARGS)

.PHONY: bench-live
bench-live: install ## Every policy in the real loop, beside its simulation; five minutes each.
	$(BIN)/python -m benchmarks.live $(ARGS)

.PHONY: bench-kubernetes-watch
bench-kubernetes-watch: $(VENV)/.installed-dev ## What a tick costs with 1,000 pods, watched and polled.
	$(BIN)/python -m benchmarks.kubernetes_watch $(ARGS)

.PHONY: bench-standby
bench-standby: install ## How soon a worker trains: started cold, and woken from standby.
	$(BIN)/python -m benchmarks.standby $(ARGS)

.PHONY: bench-fleet
bench-fleet: install ## Many jobs on one GPU budget, beside static quotas, first come first served, Gavel and Sia.
	$(BIN)/python -m benchmarks.fleet $(ARGS)

# Resolved and not installed. hatchling builds the package; redis wants async-timeout below Python 3.11.3.
.PHONY: lock
lock: ## Write the versions of a fresh install with all extras to the constraints file.
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/pip install --disable-pip-version-check --dry-run --ignore-installed --report build/lock/report.json \
	  -e '.[dev,docker,kubernetes,keda,forecast,trainer,ray]' hatchling async-timeout
	$(PYTHON) -c 'import json, sys; print(*sorted(("{name}=={version}".format(**one["metadata"]) \
	  for one in json.load(sys.stdin)["install"] if one["metadata"]["name"] != "penstock"), key=str.lower), sep="\n")' \
	  < build/lock/report.json > $(CONSTRAINTS)
	rm -rf build/lock

.PHONY: clean
clean: ## Remove what make made.
	rm -rf $(VENV) $(FORECAST_VENV) $(RAY_VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
