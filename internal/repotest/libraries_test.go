// SPDX-License-Identifier: Apache-2.0

package repotest_test

// libraries lists the packages that may import a library. A library is an import path or
// a prefix of one, of which the longest counts. Most have one importing package, so that
// replacing a library changes one package. "*" means every package. A row without
// packages is for tests only.
const libraries = `
cuelabs.dev/go/oci/ociregistry: a second registry
filippo.io/age: key wraps
	internal/envelope
github.com/ProtonMail/go-crypto: OpenPGP
	internal/signing
github.com/apparentlymart/go-versions: constraints as tofu reads them
	internal/addr
github.com/coreos/go-oidc: tokens of an issuer
	internal/access
github.com/distribution/distribution: the embedded registry
	internal/embedded
github.com/docker/cli: the format of docker's configuration
	credentials
github.com/go-git/go-git: git sources
	internal/upstream
github.com/go-jose/go-jose: tokens of an issuer, including those that the operator issues; a GitHub app's token
	internal/access
	internal/upstream
	operator/internal/runaccess
github.com/gofrs/flock: locks on files
	*
github.com/google/go-cmp: differences in tests
	internal/upstream
github.com/google/uuid: lock IDs
	*
github.com/hashicorp/go-cleanhttp: the one outgoing transport
	internal/httpserve
github.com/hashicorp/go-retryablehttp: a repeated request to a front-end has the same effect as a single one; oci repeats by rules of its own
	internal/client
github.com/hashicorp/hcl: version 1, for the CLI configuration of tofu
	credentials
github.com/hashicorp/hcl/v2: reading; internal/syntax parses, with bounds
	*
github.com/hashicorp/hcl/v2/gohcl: files are decoded with bounds
	internal/syntax
github.com/hashicorp/hcl/v2/hclparse: internal/syntax parses, with bounds
github.com/hashicorp/hcl/v2/hclsimple: internal/syntax parses, with bounds
github.com/hashicorp/hcl/v2/json: files are parsed with bounds
	internal/syntax
github.com/mattn/go-shellwords: words of TF_CLI_ARGS, as both tools read them
	internal/bridge
github.com/alecthomas/chroma: colors in readmes, by rules of our own
	internal/web/markdown
github.com/chromedp: a real browser
	internal/webtest
github.com/microcosm-cc/bluemonday: the HTML that a readme may contain
	internal/web/markdown
github.com/yuin/goldmark: Markdown
	internal/web/markdown
github.com/hashicorp/terraform-config-inspect: module descriptions
	internal/description
github.com/klauspost/compress: deflate, gzip and zstd
	*
github.com/opencontainers: the types of the specifications
	*
github.com/prometheus/client_golang: counters
	*
github.com/robfig/cron: the fields of cron, and the next time that they describe
	instances/internal/timetable
github.com/rogpeppe/go-internal: scripts
github.com/santhosh-tekuri/jsonschema: the reference for instances/internal/schema
github.com/sirupsen/logrus: the log of the embedded registry
	internal/embedded
github.com/spf13: flags are read only at the edge
	cmd/okara
	instances/commands
	internal/cli
	operator/cmd/okara-operator
github.com/vbauerster/mpb: progress is drawn only at the edge
	internal/cli
github.com/zclconf/go-cty: values of configurations
	*
go.opentelemetry.io/contrib: the one outgoing transport
	internal/httpserve
go.opentelemetry.io/otel: traces
	*
go.opentelemetry.io/otel/exporters: the destination of traces is a flag
	internal/cli
go.opentelemetry.io/otel/sdk: the destination of traces is a flag
	internal/cli
go.yaml.in/yaml: manifests of OpenDepot, and the front matter of a page of documentation
	internal/importer
	internal/description
gocloud.dev: key services
	internal/envelope
golang.org/x: maintained by the Go project
	*
oras.land/oras-go: the registry client
	oci
github.com/go-logr/logr: the log of the controllers
	operator/cmd/okara-operator
github.com/hashicorp/go-hclog: the log of a plugin, in tests
github.com/hashicorp/go-plugin: a tool that starts the provider, in tests
github.com/hashicorp/terraform-plugin-framework: the protocol of plugins stays out of okara
	provider/internal/plugin
github.com/hashicorp/terraform-plugin-go: the protocol of plugins stays out of okara
	provider/internal/plugin
google.golang.org/grpc: a tool that starts the provider, in tests
google.golang.org/protobuf: a tool that starts the provider, in tests
helm.sh/helm: the chart as helm renders it
k8s.io/api: objects of Kubernetes itself
	operator/internal/fluxrun
	operator/internal/records
	operator/api/v1alpha1
	operator/cmd/okara-operator
	operator/internal/fluxexec
	operator/internal/instancectl
	operator/internal/instancerun
	operator/internal/kindspec
	operator/internal/registryctl
	operator/internal/runaccess
	operator/internal/fluxobj
	operator/internal/kindctl
	operator/internal/kindrun
	operator/internal/verdict
	operator/internal/explain
k8s.io/apimachinery: the types of Kubernetes
	operator/internal/fluxrun
	operator/internal/records
	operator/api/v1alpha1
	operator/cmd/okara-operator
	operator/internal/fluxexec
	operator/internal/fluxobj
	operator/internal/instancectl
	operator/internal/instancerun
	operator/internal/kindspec
	operator/internal/plangate
	operator/internal/registryctl
	operator/internal/runaccess
	operator/internal/kindctl
	operator/internal/kindrun
	operator/internal/verdict
	operator/internal/explain
k8s.io/apiextensions-apiserver: the type of a CRD
	operator/api/v1alpha1
	operator/cmd/okara-operator
	operator/internal/instancectl
	operator/internal/kindctl
	operator/internal/kindspec
	operator/internal/reference
k8s.io/apiserver: the types of its rules
	operator/internal/kindspec
k8s.io/client-go: the connection to a cluster is a flag
	operator/cmd/okara-operator
k8s.io/client-go/util/csaupgrade: turns a create into an apply
	operator/internal/fluxobj
k8s.io/client-go/util/retry: repeats a write that conflicted with another one
	operator/internal/fluxobj
k8s.io/client-go/tools/events: events of objects
	operator/internal/kindctl
	operator/internal/kindrun
	operator/internal/instancectl
	operator/internal/registryctl
	operator/internal/verdict
k8s.io/client-go/util/flowcontrol: the delay before an Instance is tried again
	operator/internal/instancectl
k8s.io/client-go/util/workqueue: the delay before a failed object is tried again
	operator/internal/kindctl
	operator/internal/registryctl
sigs.k8s.io/yaml: manifests, which are JSON written as YAML
	operator/cmd/okara-operator
	operator/internal/reference
sigs.k8s.io/controller-runtime: controllers; the API server's objects
	operator/internal/fluxrun
	operator/internal/records
	operator/cmd/okara-operator
	operator/internal/fluxexec
	operator/internal/fluxobj
	operator/internal/instancectl
	operator/internal/instancerun
	operator/internal/plangate
	operator/internal/portalserve
	operator/internal/registryctl
	operator/internal/runaccess
	operator/internal/kindctl
	operator/internal/kindrun
	operator/internal/verdict
	operator/internal/explain
`
