# The whole of what a developer needs: `make test` runs everything that fits in
# 15 minutes on two cores, and installs what it needs where it may.

.PHONY: test deps bench fuzz fmt

test: deps
	./.ci/test

# runc runs the containers of the tests. Root on Debian may install it; anyone
# else is told what is skipped.
deps:
	@if command -v runc >/dev/null 2>&1; then \
		:; \
	elif [ "$$(uname -s)" = Linux ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq runc >/dev/null; \
	else \
		echo "runc is not installed, and only root on a Debian machine installs it here: container tests are skipped"; \
	fi

# Each prints its figures beside a peer's in the same run.
bench:
	go run ./bench/compile
	go test -run '^$$' -bench . -benchtime 1x ./plan ./plan/document ./compile/internal/policy ./harness/scripted

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
