// Has the CRDs of others against which the chart is tested.
module github.com/seed-141914ff/okara/operator/internal/rig/crds

go 1.26.5

require (
	github.com/prometheus-operator/prometheus-operator v0.85.0
	sigs.k8s.io/gateway-api v1.4.1
)
