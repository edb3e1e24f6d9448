// SPDX-License-Identifier: Apache-2.0

package repotest_test

// allowedOperator holds the rows of [allowed] for the packages of the operator.
const allowedOperator = `
operator: the doc.go that opens the product
operator/cmd/okara-operator: wires the controllers to a cluster and a registry
	credentials
	oci
	internal/buildinfo
	internal/addr
	internal/archive
	internal/catalog
	internal/depot
	internal/httpserve
	internal/description
	internal/states
	internal/supply
	internal/upstream
	operator/api/v1alpha1
	operator/internal/fluxexec
	operator/internal/instancectl
	operator/internal/instancerun
	operator/internal/kindctl
	operator/internal/kindrun
	operator/internal/kindspec
	operator/internal/plangate
	operator/internal/portalserve
	operator/internal/records
	operator/internal/registryctl
	operator/internal/runaccess
	internal/syntax
	statebackend
	operator/internal/verdict
	operator/internal/explain
	operator/internal/fluxobj
	instances/template
operator/internal/fluxexec: turns a run into objects of Flux and reads its progress from them
	internal/addr
	operator/internal/fluxobj
	internal/text
operator/internal/plangate: a webhook of tofu-controller
	internal/httpserve
	operator/internal/fluxexec
operator/internal/fluxobj: objects of Flux; it knows no runs
	operator/api/v1alpha1
operator/internal/portalserve: API and pages of instances over objects; no registry, no ledger
	oci
	internal/access
	internal/rights
	internal/keyring
	internal/addr
	internal/catalog
	internal/files
	instances/lifecycle
	internal/netaddr
	instances/pages
	instances/portal
	instances/settings
	internal/service
	internal/syntax
	internal/web
	operator/internal/instancectl
	instances/template
operator/internal/kindctl: turns definitions into kinds; the runner of their objects is passed in
	internal/addr
	internal/catalog
	internal/signing
	internal/trust
	oci
	oci/artifact
	operator/api/v1alpha1
	operator/internal/fluxexec
	operator/internal/kindspec
	operator/internal/records
	operator/internal/verdict
	operator/internal/fluxobj
operator/internal/kindspec: pure: a definition and a module become a kind, and its objects become runs
	internal/addr
	oci/artifact
	operator/api/v1alpha1
	operator/internal/fluxexec
	operator/internal/kindrun
	operator/internal/fluxrun
operator/internal/registryctl: turns objects of a cluster into calls of the engine of depot files; it knows no flags
	oci
	oci/artifact
	oci/artifact/evidence
	internal/access
	internal/rights
	internal/addr
	internal/depot
	internal/scan
	internal/supply
	internal/upstream
	operator/api/v1alpha1
	internal/text
	operator/internal/verdict
	operator/internal/fluxobj
operator/internal/instancectl: objects of a cluster are the document of the machine; the runner is passed in
	oci
	internal/addr
	instances/lifecycle
	instances/api
	internal/text
	instances/run
	operator/api/v1alpha1
	operator/internal/fluxobj
	operator/internal/records
	operator/internal/verdict
	instances/template
operator/internal/instancerun: attempts of instances by Flux, with their states in okara serve
	instances/templatesource
	oci
	internal/addr
	internal/catalog
	instances/lifecycle
	instances/run
	operator/api/v1alpha1
	operator/internal/fluxexec
	operator/internal/fluxrun
	operator/internal/instancectl
	operator/internal/runaccess
	operator/internal/fluxobj
	instances/template
operator/internal/fluxrun: determines how runs of modules end, for every purpose
	operator/internal/fluxexec
	operator/internal/fluxobj
	operator/internal/runaccess
	operator/api/v1alpha1
	operator/internal/verdict
operator/internal/records: the data that outlives the status of an object
	operator/api/v1alpha1
	operator/internal/fluxobj
operator/internal/verdict: conditions of objects, worded in one way
	internal/text
	operator/api/v1alpha1
operator/internal/explain: a page about an object, read with the rights of the caller
	internal/text
	operator/api/v1alpha1
	operator/internal/fluxobj
operator/internal/runaccess: what a run needs before it starts and returns at the end
	oci
	internal/states
	internal/syntax
	operator/internal/fluxexec
	statebackend
	internal/addr
	operator/internal/fluxobj
operator/internal/kindrun: carries out objects of generated kinds
	internal/text
	operator/api/v1alpha1
	operator/internal/fluxexec
	operator/internal/fluxobj
	operator/internal/fluxrun
	operator/internal/records
	operator/internal/runaccess
	operator/internal/verdict
operator/api/v1alpha1: leaf: the types of the objects
operator/internal/reference: reads the CRDs, not the types
operator/internal/chart: a test package: the rendered chart, and what its rights allow
	internal/ocitest
	operator/api/v1alpha1
	operator/internal/fluxexec
	operator/internal/instancectl
	operator/internal/instancerun
	operator/internal/rig
	operator/internal/runaccess
	operator/internal/fluxobj
	instances/template
operator/internal/demo: measurements; it uses okara and the operator as processes
	internal/files
	operator/api/v1alpha1
	operator/internal/chart
	operator/internal/fluxobj
	operator/internal/rig
	operator/internal/runaccess
operator/internal/pages: a test package that carries out the pages about Kubernetes
	operator/internal/rig
operator/internal/rig: a test package: real programs of a cluster
	internal/access
	internal/rights
	internal/keyring
	internal/addr
	internal/catalog
	internal/depot
	internal/depottest
	internal/files
	internal/states
	oci
	operator/api/v1alpha1
	operator/internal/fluxexec
	operator/internal/instancectl
	operator/internal/instancerun
	operator/internal/kindrun
	operator/internal/kindspec
	operator/internal/plangate
	operator/internal/records
	operator/internal/runaccess
	statebackend
	statebackend/httpbackend
	operator/internal/fluxobj
`
