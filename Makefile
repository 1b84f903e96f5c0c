# The whole of what a developer needs: `make test` runs everything that fits in
# 15 minutes on two cores, and installs what it needs where it may.

.PHONY: test test-long test-kill deps bench fuzz fmt

test: deps
	@if [ "$$(id -u)" = 0 ] && command -v mmdebstrap >/dev/null 2>&1; then ./.ci/cwltool-image; fi
	@if [ "$$(id -u)" = 0 ] && command -v mmdebstrap >/dev/null 2>&1 && command -v npm >/dev/null 2>&1; then ./.ci/pi-image; fi
	@if command -v npm >/dev/null 2>&1; then ./.ci/pi-local; fi
	./.ci/test

# runc runs the containers of the tests, containerd is the system daemon that
# they also run on (started by the tests, privately); busybox and cwltool are programs for
# checks in them, mmdebstrap makes the file system of the latter; chromium, driven by chromedriver, shows the
# pictures of plans. Root on Debian may install them; anyone else is told what is skipped.
DEPS = runc containerd busybox mmdebstrap chromium chromedriver
PACKAGES = runc containerd busybox-static mmdebstrap chromium chromium-driver
deps:
	@missing=; for p in $(DEPS); do command -v $$p >/dev/null 2>&1 || missing="$$missing $$p"; done; \
	if [ -z "$$missing" ]; then \
		:; \
	elif [ "$$(uname -s)" = Linux ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(PACKAGES) >/dev/null; \
	else \
		echo "Not installed:$$missing. Only root on a Debian machine installs them here: the tests that need them are skipped"; \
	fi

# What is too long for every run: 60 kills of the container runtime's parts,
# 1 GB streams, 200,000 names, the suites at full size.
test-long: deps
	FOUNDRY_LONG=1 go test -timeout 30m ./sandbox/...

# Kills runs in containers at every write of their journal, and goes on with
# each.
test-kill: deps
	FOUNDRY_LONG=1 go test -count 1 -timeout 30m -run '^TestKilledInContainers$$' -v ./cmd/foundry

# Each prints its figures beside a peer's in the same run.
bench:
	go run ./bench/compile
	go run ./bench/local
	go run ./bench/containers
	go test -run '^$$' -bench LocalChain -benchtime 1x ./exec
	if [ -d /dev/shm ]; then TMPDIR=/dev/shm go test -run '^$$' -bench LocalChain -benchtime 1x ./exec; fi
	go test -run '^$$' -bench Review -benchtime 1x ./cmd/foundry
	go test -run '^$$' -bench . -benchtime 1x ./plan ./plan/diff ./plan/document ./compile/internal/policy ./harness/scripted
	go test -run '^$$' -bench Added -benchtime 100x ./exec/broker

# Every fuzz target for FUZZTIME.
FUZZTIME ?= 20s
fuzz:
	@go list ./... | while read -r pkg; do \
		go test -list '^Fuzz' "$$pkg" | grep '^Fuzz' | while read -r target; do \
			echo "$$pkg $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x "$$pkg" || exit 1; \
		done || exit 1; \
	done

fmt:
	gofmt -w $$(git ls-files '*.go')
