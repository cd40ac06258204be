# Commands for this tree. Prerequisites: Python 3.11 or newer, and make.
# The virtual environment in .venv is created on demand, and created anew after a change of pyproject.toml.

VENV := .venv
BIN := $(VENV)/bin
SERVERS ?= 3
DATA ?= ./data
BROKERS ?= 3
RUNS ?= 10000
ROUNDS ?= 100
OPERATIONS ?= 100000
SEED ?= 1
SECONDS ?= 600
HOURS ?= 8

.DEFAULT_GOAL := help
.PHONY: help run quick test check docs site peers
.PHONY: nightly fuzz fuzz-port fuzz-cost differential mutate-checkers drill explore kill9 kill9-controller migration bench bench-gate

help:
	@echo 'make run     everything on loopback: a store on $(SERVERS) servers and $(BROKERS) Kafka brokers (BROKERS=0: the store alone);'
	@echo '             data in $(DATA); Ctrl-C ends it'
	@echo 'make quick   check format, lint and contracts, and test the layers that only compute: less than a minute'
	@echo 'make test    check format, lint, types and contracts, and run every test'
	@echo 'make check   the same without the tests'
	@echo 'make docs    check every link of the docs and run every example in them'
	@echo 'make site    build the documentation as a site with search and an API reference, in site/; check its links'
	@echo 'make peers   fetch clients and servers for tests and benchmarks: Apache Kafka, releases of ZooKeeper, kafkajs, go-zookeeper'
	@echo 'make fuzz    simulate $(RUNS) histories of all machines under faults (RUNS=n for another number)'
	@echo 'make nightly run tests that take minutes, and unit tests with other versions of Python; then simulate real drivers, and'
	@echo '             run real processes, under faults for $(HOURS) h (HOURS=n); summary and exit status at the end'
	@echo 'make fuzz-port  send mutated input to a running client port until it misbehaves'
	@echo 'make fuzz-cost  send hostile requests to a running store for $(SECONDS) s, and to a broker, until one costs too much (SECONDS=n, SEED=n)'
	@echo 'make differential  run $(OPERATIONS) random operations on Apache ZooKeeper and on ours, and compare (OPERATIONS=n, SEED=n)'
	@echo 'make mutate-checkers  mutate the checkers of histories for $(SECONDS) s; list the mutations that no test history notices (SECONDS=n, SEED=n)'
	@echo 'make drill   cut off the leader of three servers and draw the outcome in drill.html'
	@echo 'make explore visit the states of three servers with 2 transactions, 2 crashes and 1 partition, for $(SECONDS) s (SECONDS=n)'
	@echo 'make kill9   kill -9 the leader of real processes under load, $(ROUNDS) times (ROUNDS=n)'
	@echo 'make kill9-controller  kill -9 the controller of three brokers while it works, $(ROUNDS) times (ROUNDS=n)'
	@echo 'make migration  replace three servers of Apache ZooKeeper by ours and back, under clients, $(ROUNDS) times (ROUNDS=n)'
	@echo 'make bench   benchmark side by side with other systems, in one run'
	@echo 'make bench-gate  compare the cost of a fixed workload with stored figures; warn if it grew'

run: $(VENV)/.with-broker
	@$(BIN)/zab dev --servers $(SERVERS) --brokers $(BROKERS) --data $(DATA)

quick: $(VENV)/.with-dev
	@scripts/check --quick

test: $(VENV)/.with-dev
	@scripts/check --tests

check: $(VENV)/.with-dev
	@scripts/check

docs: $(VENV)/.with-dev
	@$(BIN)/python -m pytest -q tests/project/test_docs.py

site: $(VENV)/.with-docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m scripts.site

peers:
	@scripts/peers .peers

fuzz: $(VENV)/.with-dev
	@$(BIN)/zab-harness fuzz --runs $(RUNS)

nightly: $(VENV)/.with-dev
	@scripts/nightly "$$(awk 'BEGIN { print int($(HOURS) * 3600) }')"

fuzz-port: $(VENV)/.with-fuzz
	@$(BIN)/python -m tests.fuzz.port

fuzz-cost: $(VENV)/.with-dev
	@$(BIN)/python -m tests.cost.store_campaign --seconds $(SECONDS) --seed $(SEED)
	@COST_SEED=$(SEED) COST_ELEMENTS=4000 $(BIN)/python -m pytest -q tests/cost/test_broker_cost.py

differential: $(VENV)/.with-dev
	@$(BIN)/python -m tests.differential --operations $(OPERATIONS) --seed $(SEED)

mutate-checkers: $(VENV)/.with-dev
	@$(BIN)/python -m tests.checker_mutation --seconds $(SECONDS) --seed $(SEED)

drill: $(VENV)/.with-cli
	@$(BIN)/zab-harness drill --output drill.html

explore: $(VENV)/.with-dev
	@$(BIN)/zab-harness explore --transactions 2 --crashes 2 --cuts 1 --leaders 3 --stalls 1 --seconds $(SECONDS)

kill9: $(VENV)/.with-dev
	@$(BIN)/python -m bench kill9 --rounds $(ROUNDS)

kill9-controller: $(VENV)/.with-dev
	@$(BIN)/python -m bench controller-kill9 --rounds $(ROUNDS)

migration: $(VENV)/.with-bench
	@$(BIN)/python -m bench migration --rounds $(ROUNDS)

bench: $(VENV)/.with-bench
	@$(BIN)/python -m bench

bench-gate: $(VENV)/.with-bench
	@$(BIN)/python -m bench gate

# One stamp for each set of dependencies, so that `make run` does not wait for the installation of a type checker.
$(VENV)/.with-%: pyproject.toml scripts/venv
	@scripts/venv $(VENV) $*
	@touch $@
