# Everything a person does with this tree. Needed beforehand: Python 3.11 or newer, and make.
# The virtual environment in .venv is made on demand, and made anew when pyproject.toml changes.

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

.DEFAULT_GOAL := help
.PHONY: help run test check docs peers fuzz fuzz-port fuzz-cost differential drill kill9 kill9-controller bench bench-gate

help:
	@echo 'make run     the whole on loopback: a store on $(SERVERS) servers and $(BROKERS) Kafka brokers (BROKERS=0: the store alone);'
	@echo '             data in $(DATA); Ctrl-C ends it'
	@echo 'make test    format, lint, types, contracts and every test'
	@echo 'make check   the same without the tests'
	@echo 'make docs    follow every link of the docs and run every example in them'
	@echo 'make peers   clients and servers of others that tests and benchmarks want to meet: Apache Kafka, kafkajs, go-zookeeper'
	@echo 'make fuzz    $(RUNS) simulated histories under faults (RUNS=n for another number)'
	@echo 'make fuzz-port  whatever comes to mind, thrown at a running client port, until something is found'
	@echo 'make fuzz-cost  hostile requests at a running store for $(SECONDS) s, and at a broker, until one costs too much (SECONDS=n, SEED=n)'
	@echo 'make differential  $(OPERATIONS) random operations at Apache ZooKeeper and at ours, compared (OPERATIONS=n, SEED=n)'
	@echo 'make drill   three servers, their leader cut off, and a picture of it: drill.html'
	@echo 'make kill9   kill -9 the leader of real processes under load, $(ROUNDS) times (ROUNDS=n)'
	@echo 'make kill9-controller  kill -9 the controller of three brokers in the midst of its work, $(ROUNDS) times (ROUNDS=n)'
	@echo 'make bench   side by side with a peer, in one run'
	@echo 'make bench-gate  a fixed workload against stored figures: it warns of what has become dearer'

run: $(VENV)/.with-broker
	@$(BIN)/zab dev --servers $(SERVERS) --brokers $(BROKERS) --data $(DATA)

test: $(VENV)/.with-dev
	@scripts/check --tests

check: $(VENV)/.with-dev
	@scripts/check

docs: $(VENV)/.with-dev
	@$(BIN)/python -m pytest -q tests/unit/test_docs.py

peers:
	@scripts/peers .peers

fuzz: $(VENV)/.with-dev
	@$(BIN)/zab-harness fuzz --runs $(RUNS)

fuzz-port: $(VENV)/.with-fuzz
	@$(BIN)/python -m tests.fuzz.port

fuzz-cost: $(VENV)/.with-dev
	@$(BIN)/python -m tests.cost.store_campaign --seconds $(SECONDS) --seed $(SEED)
	@COST_SEED=$(SEED) COST_ELEMENTS=4000 $(BIN)/python -m pytest -q tests/cost/test_broker_cost.py

differential: $(VENV)/.with-dev
	@$(BIN)/python -m tests.differential --operations $(OPERATIONS) --seed $(SEED)

drill: $(VENV)/.with-cli
	@$(BIN)/zab-harness drill --output drill.html

kill9: $(VENV)/.with-dev
	@$(BIN)/python -m bench kill9 --rounds $(ROUNDS)

kill9-controller: $(VENV)/.with-dev
	@$(BIN)/python -m bench controller-kill9 --rounds $(ROUNDS)

bench: $(VENV)/.with-bench
	@$(BIN)/python -m bench

bench-gate: $(VENV)/.with-bench
	@$(BIN)/python -m bench gate

# One stamp for each set of dependencies: `make run` shall not wait for a type checker to be installed.
$(VENV)/.with-%: pyproject.toml scripts/venv
	@scripts/venv $(VENV) $*
	@touch $@
