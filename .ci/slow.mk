# SPDX-License-Identifier: Apache-2.0
# What is too slow for each change, or is asked for by hand.
CHAOS   ?= 30m
BENCHES  = $(shell grep -rl --include='*_test.go' '^func Benchmark' cmd instances internal statebackend | xargs -n1 dirname | sort -u | sed 's|^|./|')

.PHONY: examples demo-instances demo-kube scale-kube chaos-kube bench bench-once bench-long fuzz interop interop-kube newest core-alone mutants year vuln models screenshots recording release-check container-check
examples: tools # each folder of examples in a copy, and the scripts of its CI files
	cd operator && $(OPERATOR)
	cd internal/e2e && go test -vet=off -count=1 -v -run 'TestExamples$$|TestCI$$' .
	PATH="$(CURDIR)/bin:$(CURDIR)/$(dir $(TOFU)):$(CURDIR)/$(dir $(REG)):$(CURDIR)/$(dir $(JQ)):$$PATH" sh examples/deployment/run.sh
demo-instances: build $(TOFU) $(TIME) $(JQ) # twelve minutes: no lifetime is shorter than ten
	sh testdata/demo/instances.sh
demo-kube: build $(TOFU) $(JQ)
	$(MAKE) -C operator etcd kube-apiserver kubectl helm
	cd operator && $(OPERATOR)
	sh testdata/demo/kube.sh
scale-kube: build # one operator with many objects: what it keeps, and what an idle hour asks of whom
	$(MAKE) -C operator etcd kube-apiserver crds
	cd operator && $(OPERATOR) && OKARA_SCALE=5000,1000,1000 go run ./internal/demo
chaos-kube: build # one operator with objects, in which everything is killed at random; CHAOS is for how long
	$(MAKE) -C operator etcd kube-apiserver kube-controller-manager crds
	cd operator && $(OPERATOR) && OKARA_CHAOS=$(CHAOS) go run ./internal/demo
bench: tools # a table in docs/reference/performance.md; with BASE=COMMIT beside the program of that commit, in the same run
	.ci/bench "$(BASE)" $(patsubst oras=%,%,$(filter oras=%,$(CLIENTS)))
	$(MAKE) bench-once
bench-once: # each benchmark once, the largest smaller or not at all, so that few rot
	go test -short -timeout 10m -vet=off -run '^$$' -bench . -benchtime 1x $(BENCHES)
bench-long: tools
	go test -timeout 30m -run '^$$' -bench . -benchmem $(BENCHES)
fuzz:
	@for f in $$(grep -rEo --include='*_test.go' '^func Fuzz\w+' . | sed 's|/[^/]*:func |:|'); do \
		(cd "$${f%:*}" && go test -run '^$$' -fuzz "^$${f#*:}$$" -fuzztime 10s -fuzzminimizetime 10x .) || exit 1; done
interop: tools $(OTHERS) $(STATES) $(TRIVY) $(COSIGN) $(KO) $(PROM) $(if $(shell command -v npm),$(INSPECT))
	cd internal/e2e && OKARA_TEST_PROMTOOL="$(CURDIR)/$(PROM)" go test -count=1 -run 'TestPromtool' .
	for v in $(OTHERS); do export OKARA_TEST_TOFU="$(CURDIR)/$$v"; \
		go test -count=1 -run 'TestTofu' ./registry ./cmd/okara ./instances/commands && (cd internal/e2e && OKARA_TEST_RIVALS=1 go test -count=1 -timeout 30m -run 'TestTofu|TestCloud|TestCrash$$' .) || exit 1; done
	OKARA_TEST_FAULTS=1 go test -count=1 -run 'TestTofuFaultMatrix' -v ./cmd/okara
	OKARA_TEST_LOCKS=1000 go test -count=1 -timeout 1h -parallel 8 -run 'TestHistories' -v ./statebackend/tfe
	cd internal/e2e && OKARA_TEST_SERVERS=200 go test -count=1 -timeout 6h -run 'TestServers' -v .
	cd internal/e2e && OKARA_TEST_CRASH=1 go test -count=1 -run 'TestCrashTerraform' .
	cd internal/e2e && OKARA_TEST_STATES="$(CURDIR)/$(STATES)" go test -count=1 -timeout 2h -run 'TestStateStore' .
	cd internal/e2e && OKARA_TEST_TRIVY="$(CURDIR)/$(TRIVY)" go test -count=1 -run 'TestTrivy' .
	cd internal/e2e && OKARA_TEST_COSIGN="$(CURDIR)/$(COSIGN)" go test -count=1 -run 'TestCosign' .
	cd internal/e2e && OKARA_TEST_INSTANCES=1 go test -count=1 -timeout 30m -run 'TestLeader' .
	OKARA_TEST_KO="$(CURDIR)/$(KO)" go test -count=1 -timeout 30m -run TestImages ./internal/images
	cd internal/conformance && OKARA_TEST_INSPECTOR="$(if $(shell command -v npm),$(CURDIR)/$(INSPECT))" go test -count=1 ./...
newest: tools # the newest releases of the tools, run by hand before a release
	.ci/newest
interop-kube: build $(TOFU) # ten minutes of builds at first
	$(MAKE) -C operator etcd kube-apiserver controllers
	cd operator && $(OPERATOR) && \
		OKARA_TEST_TOFU="$(CURDIR)/$(TOFU)" go test -count=1 -p 1 -timeout 30m ./internal/rig ./internal/pages && \
		OKARA_TEST_TOFU="$(CURDIR)/$(TOFU)" go test -count=1 -run TestInstancesEnd ./internal/chart
core-alone: tools # the tests of the core, in a tree without the folder instances
	OKARA_TEST_CORE=1 go test -count=1 -timeout 2h -run TestCoreAlone -v ./internal/repotest
mutants: $(REG) # one guard after another is taken from the lock, the sandbox of runs and the machine of instances; then a million random steps of it and of publishers
	OKARA_TEST_MUTANTS=1 go test -count=1 -timeout 1h -run TestRules ./statebackend/internal/protocol
	OKARA_TEST_SCHEDULES=2000000 go test -count=1 -timeout 1h -run TestSimulate -v ./statebackend/internal/protocol
	OKARA_TEST_MUTANTS=1 go test -count=1 -timeout 1h -run TestMutants ./instances/internal/localexec
	OKARA_TEST_MUTANTS=1 go test -count=1 -timeout 1h -run TestMutants ./instances/lifecycle
	OKARA_TEST_STEPS=1000000 go test -count=1 -timeout 1h -run TestRandomSteps -v ./instances/lifecycle
	OKARA_TEST_MUTANTS=1 go test -count=1 -timeout 2h -run TestWalkFindsMutants ./registry
	GOGC=400 OKARA_TEST_STEPS=1000000 go test -count=1 -timeout 2h -run TestWalkOfNumbers -v ./registry
	printf 'version: 0.1\nstorage: {inmemory: {}, delete: {enabled: true}}\nhttp: {addr: "127.0.0.1:5871"}\nlog: {level: error}\n' | $(REG) serve /dev/stdin 2>/dev/null >&2 & trap "kill $$!" EXIT; sleep 2; \
		OKARA_TEST_REGISTRY=127.0.0.1:5871 OKARA_TEST_STEPS=3000 go test -count=1 -timeout 1h -run TestWalkOfNumbers -v ./registry
year: # a year of hourly applies and daily publishes, with kill -9
	OKARA_TEST_DAYS=365 go test -count=1 -timeout 3h -run TestYear -v ./internal/embedded
vuln: # asks vuln.go.dev; not part of lint, which needs no network
	for m in . $(NESTED); do (cd $$m && go run golang.org/x/vuln/cmd/govulncheck@v1.8.0 -test ./...) || exit 1; done
models:
	sh statebackend/models/run.sh
screenshots: # of a fixture whose clock stands still; no test compares them
	OKARA_SCREENSHOTS="$(CURDIR)/bin/screenshots" go test -count=1 -tags browser -timeout 30m -run TestPictures ./internal/web
recording: build $(TOFU) $(TIME) # the demo as the moving picture of the README
	cd internal/e2e && go run ./record ../../testdata/demo/demo.sh ../../docs/demo.svg
release-check: tools $(PACKING) # what a release is made of, built twice and compared; half an hour at first
	$(MAKE) -C operator helm
	.ci/release-check $(PACKING) $$(echo $(CACHE)/kube/helm/*/helm)
container-check: build image # by podman and Docker Compose of Debian, as root: the image, and deploy/compose
	.ci/container-check $(REG) $(TOFU)
