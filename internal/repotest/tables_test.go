// SPDX-License-Identifier: Apache-2.0

package repotest_test

// mounts lists the packages outside of instances and the operator that depend on the
// platform: the command that mounts it, and tests of shared code that use a portal.
const mounts = `
cmd/okara: the command wires everything together; from the packages of instances it mounts only their commands and their extension; test packages never reach a user
	instances
	instances/commands
	instances/settings
internal/web: puts the pages together and has the pages for administrators; other sets are passed in as values; it knows no registry and no other server
	instances/lifecycle
	instances/template
	instances/pages
	instances/portal
	instances/portaltest
`

// allowed lists the packages that each package may import, and why. A package that is not
// listed fails the test: adding one is a decision. There is one import per line, so that
// two changes of a row seldom conflict. "*" means every package except the test packages,
// and "!" excludes a package.
const allowed = allowedOperator + `cmd/okara: the command wires everything together; from the packages of instances it mounts only their commands and their extension; test packages never reach a user
	*
	!instances/api
	!instances/internal/portalclient
	!instances/internal/ledger
	!instances/lifecycle
	!instances/pages
	!instances/portal
	!instances/internal/child
	!instances/internal/localexec
	!instances/run
	!instances/internal/prices
	!instances/internal/sandbox
	!instances/internal/schema
	!instances/template
	!internal/cache
	!statebackend/s3facade
	!statebackend/httpbackend
	!statebackend/tfe
internal/checkout: reads git and the variables of a CI job; it publishes nothing
	oci/artifact
	internal/addr
	internal/text
internal/cli: shared by the commands of cmd/okara and of instances; it also ends a command line and words its errors, so it imports the packages that return them
	credentials
	oci
	statebackend
	internal/buildinfo
	internal/addr
	internal/archive
	internal/bundle
	internal/client
	internal/depot
	internal/description
	internal/envelope
	internal/files
	internal/httpserve
	internal/netaddr
	internal/signing
	internal/states
	internal/syntax
	internal/text
	internal/trust
	internal/upstream
registry: the front-end serves artifacts; it knows nothing of state, flags or listeners
	oci
	oci/artifact
	oci/artifact/evidence
	internal/access
	internal/rights
	internal/keyring
	internal/addr
	internal/archive
	internal/cache
	internal/catalog
	internal/depot
	internal/downloads
	internal/jobs
	internal/description
	internal/signing
	internal/files
	internal/pieces
	internal/service
	internal/supply
	internal/syntax
	internal/trust
	internal/text
statebackend: a state store is a repository with rules; the lock must not depend on anything above it
	statebackend/format
	statebackend/internal/protocol
	oci
	oci/artifact
	internal/text
statebackend/format: the stored form of states; the store decides who may write
	oci
	oci/artifact
	internal/text
statebackend/internal/protocol: the lock is a pure state machine; of a registry it knows only the tag names of a workspace and which errors are temporary
	statebackend/format
	oci
statebackend/httpbackend: a protocol over a Store; httpserve names requests
	statebackend/format
	oci
	statebackend
	internal/httpserve
	internal/states
statebackend/tfe: a protocol over a Store that checks rights itself, since an ID in the path identifies the object; archive, files and syntax read uploaded configurations
	statebackend/format
	statebackend/tfe/variables
	oci
	oci/artifact
	statebackend
	internal/access
	internal/rights
	internal/keyring
	internal/addr
	internal/archive
	internal/httpserve
	internal/files
	internal/states
	internal/text
	internal/service
statebackend/tfe/variables: records beside the states of a repository; the caller checks rights
	statebackend/format
	oci
	oci/artifact
	statebackend
	internal/syntax
	internal/text
statebackend/s3facade: a protocol over a Store
	statebackend/format
	internal/text
	oci
	statebackend
	internal/files
statebackend/doctor: examines a given repository; the caller connects to it
	statebackend/format
	oci
	oci/artifact
	statebackend
statebackend/foreign: reads states of other tools; the caller names the file or repository
	internal/text
	statebackend/format
	oci
	oci/artifact
	statebackend
credentials: implements oci.CredentialFunc and nothing else; a token is sent over https only, or stays on this machine
	oci
	internal/netaddr
	internal/files
oci: the client of one registry handles bytes, digests and tags, never their meaning
	internal/netaddr
	internal/text
oci/artifact: the format of each kind of artifact, never flags, files of the user or servers
	oci
	internal/addr
	internal/text
oci/artifact/evidence: the stored form of what is attached to a version; signing and trust verify it
	oci
	oci/artifact
	internal/addr
	internal/text
internal/sample: sample content of a demonstration server; it publishes as a client does
	oci
	oci/artifact/evidence
	internal/statictoken
	internal/rights
	internal/addr
	internal/depot
	internal/files
	internal/signing
	internal/text
internal/supply: keeps a declared set in step with its upstreams; the lock for a single runner is passed in as a func, so state is not imported
	oci
	oci/artifact
	oci/artifact/evidence
	internal/addr
	internal/archive
	internal/depot
	internal/netaddr
	internal/signing
	internal/scan
	internal/files
	internal/syntax
	internal/upstream
	internal/text
internal/importer: converts configurations of other tools to entries and objects; it publishes nothing
	oci
	internal/addr
	internal/depot
	internal/supply
	internal/text
	internal/upstream
internal/trust: verifies the signatures and reports of a version against a policy; the caller connects to the registry
	oci
	oci/artifact
	oci/artifact/evidence
	internal/addr
	internal/archive
	internal/description
	internal/signing
	internal/scan
	internal/files
internal/signing: signs and verifies releases; it reads only what it is given
	oci
	oci/artifact
	internal/addr
	internal/archive
	internal/files
	internal/text
internal/depot: publishes one version at a time; the versions and the checks before publication are passed in as values
	oci
	oci/artifact
	oci/artifact/evidence
	internal/addr
	internal/archive
	internal/files
	internal/description
	internal/signing
	internal/syntax
	internal/trust
	internal/upstream
	internal/text
internal/client: publishes and reads through a front-end as depot does with a registry; it knows no registry
	oci
	oci/artifact
	oci/artifact/evidence
	internal/addr
	internal/depot
	internal/signing
	internal/text
internal/upstream: only reads registries of others; a library needs the known hosts as a file
	internal/netaddr
	oci
	oci/artifact
	oci/artifact/evidence
	internal/addr
	internal/signing
	internal/files
	internal/text
internal/server: puts the handlers on one port; flags, credentials and terminal output are passed in as values
	statebackend/format
	oci
	oci/artifact
	oci/artifact/evidence
	registry
	statebackend
	statebackend/httpbackend
	statebackend/tfe
	internal/access
	internal/statictoken
	internal/rights
	internal/keyring
	internal/addr
	internal/cache
	internal/catalog
	internal/depot
	internal/embedded
	internal/httpserve
	internal/netaddr
	internal/files
	internal/search
	internal/service
	internal/supply
	internal/syntax
	internal/trust
	internal/web
	internal/web/markdown
	internal/web/site
	internal/upstream
	internal/states
	internal/text
	internal/auditlog
internal/cache: values in memory and archives on disk; the readers know their meaning
	oci
	internal/files
internal/search: finds entries by their words; the entries are passed in and no request is made
	internal/addr
	internal/text
internal/catalog: published versions, read through caches and screened; revoked keys are removed from the answers, so it reads keys; signing names the files of an index without names
	oci
	oci/artifact
	oci/artifact/evidence
	internal/addr
	internal/cache
	internal/depot
	internal/description
	internal/search
	internal/signing
	internal/scan
	internal/trust
	internal/text
internal/taglog: what a tag records, and when it expires, is the caller's
	oci
internal/downloads: counts under tags; the caller decides what is counted
	internal/taglog
	internal/text
	oci
	oci/artifact
internal/auditlog: changes of processes, under tags; the caller checks rights; access translates a status to an outcome
	internal/taglog
	oci
	oci/artifact
	internal/access
	internal/text
internal/jobs: a queue in a repository; the handlers carry out its jobs
	internal/taglog
	oci
	oci/artifact
	internal/text
internal/lockfile: hashes of the providers that a configuration requires and that depot could mirror
	oci
	internal/addr
	internal/depot
	internal/description
	internal/files
	internal/importer
	internal/signing
	internal/syntax
	internal/trust
	internal/upstream
internal/plugincache: provider packages shared by several inits; lockfile reads lock files, and the caller names the directory
	internal/addr
	internal/archive
	internal/depot
	internal/files
	internal/lockfile
	internal/signing
	internal/upstream
internal/description: configuration or documentation in, description out
	oci
	oci/artifact
	internal/addr
	internal/archive
	internal/syntax
	internal/text
internal/rights: compares a right with the rights that a rule grants; pure
	internal/addr
	internal/text
internal/keyring: signs and seals with the keys of a server; it imports no package of this repository
internal/statictoken: static tokens and the files that list them
	internal/files
	internal/rights
	internal/text
internal/access: decides who may do what; it knows names and rights, not the objects behind them; httpserve names requests
	internal/statictoken
	internal/rights
	internal/keyring
	internal/netaddr
	oci
	internal/addr
	internal/cache
	internal/httpserve
	internal/syntax
	internal/text
internal/service: shared by the services of a server; it knows clients and refusals, not the content served
	oci
	internal/access
	internal/httpserve
	internal/text
internal/backendblock: turns values into a Store; the callers write the files
	oci
	statebackend
	internal/envelope
	internal/httpserve
internal/bridge: runs a tool beside a facade over the Store that a backend block describes
	statebackend
	statebackend/s3facade
	internal/addr
	internal/backendblock
	internal/text
	internal/files
	internal/httpserve
	internal/lease
	internal/syntax
internal/lease: watches a lock and ends a process; it owns neither
	statebackend
internal/addr: leaf: pure names
internal/archive: trees and bytes
	internal/files
internal/bundle: files that carry published versions; depot connects to registries
	oci
	oci/artifact
	oci/artifact/evidence
	internal/addr
	internal/depot
	internal/files
	internal/signing
	internal/trust
internal/pieces: the content that belongs to one published version; rights are checked elsewhere
	oci
	oci/artifact/evidence
	internal/addr
	internal/depot
internal/files: leaf: files of the user, and temporary ones
internal/netaddr: leaf: classifies addresses
internal/embedded: leaf: a handler
	internal/text
internal/envelope: bytes in, bytes out
	internal/files
internal/httpserve: both ends of HTTP
	internal/netaddr
	internal/files
	internal/text
internal/scan: leaf: runs a program and reads its report
internal/images: builds programs and packs them into images
	oci
	internal/addr
	internal/bundle
	internal/depot
	internal/embedded
	internal/files
instances/template: reads, checks and renders templates by pure functions; the loader knows where they come from
	instances/internal/schema
	instances/internal/timetable
	internal/addr
	internal/syntax
	internal/text
instances/lifecycle: the life of instances is a pure state machine, without input or output
	instances/internal/prices
	instances/internal/timetable
	instances/template
	instances/internal/plantext
	internal/addr
	internal/syntax
	internal/text
instances/internal/prices: leaf: the cost of a plan by a price table; the caller supplies the plan
instances/internal/schema: leaf: values and the constraints on them
instances/internal/timetable: leaf: times of stopping and starting in a time zone
instances/internal/sandbox: what the supervisor of an attempt and its child share: the order, and how the tool runs apart from the machine; it knows no registry
	instances/internal/prices
	instances/lifecycle
	instances/run
	internal/files
	internal/text
instances/internal/child: the process of one attempt; whether its attempt is still current is passed in as a func
	instances/internal/plantext
	instances/internal/prices
	instances/internal/records
	instances/internal/sandbox
	instances/lifecycle
	instances/run
	instances/template
	oci
	oci/artifact
	statebackend
	statebackend/format
	statebackend/s3facade
	internal/upstream
	internal/text
	internal/states
	internal/plugincache
	internal/httpserve
	internal/files
	internal/envelope
	internal/bridge
	internal/archive
	internal/addr
instances/internal/localexec: starts, observes and ends attempts on this machine; it does not know what their children do
	instances/internal/records
	instances/internal/sandbox
	instances/lifecycle
	instances/run
	oci
	statebackend
	internal/text
	internal/files
	internal/addr
instances/run: the interface of an executor, and what an attempt stores in the registry
	instances/internal/prices
	instances/internal/records
	instances/lifecycle
	instances/template
	oci
instances: mounts the platform into a server, as an extension that the core knows by an interface
	instances/templatesource
	instances/internal/records
	oci
	statebackend
	statebackend/tfe
	internal/access
	instances/internal/sandbox
	instances/internal/driver
	internal/rights
	internal/keyring
	internal/addr
	internal/catalog
	internal/embedded
	internal/httpserve
	internal/jobs
	internal/server
	internal/service
	internal/syntax
	internal/text
	internal/upstream
	internal/web
	instances/internal/ledger
	instances/internal/localexec
	instances/lifecycle
	instances/template
	instances/pages
	instances/portal
	instances/run
	instances/settings
	internal/states
	internal/web/site
instances/settings: the configuration blocks for instances, and their meaning
	instances/templatesource
	instances/internal/prices
	instances/lifecycle
	instances/template
	instances/portal
	instances/internal/driver
	internal/addr
	internal/files
	internal/syntax
	internal/text
instances/internal/ledger: the document of the machine under the lock of a state; the caller forwards requests to the leader and carries out effects
	statebackend/format
	oci
	statebackend
	internal/files
	instances/lifecycle
	instances/template
instances/internal/records: what an instance stores in the registry, never its meaning
	oci
	oci/artifact
	internal/addr
	internal/text
instances/portal: the API of instances over a store that is passed in
	instances/internal/timetable
	internal/description
	instances/internal/records
	oci
	oci/artifact
	internal/access
	instances/internal/span
	internal/rights
	internal/addr
	internal/httpserve
	instances/lifecycle
	instances/template
	internal/netaddr
	instances/api
	instances/run
	internal/service
	internal/states
instances/internal/driver: it carries out on this machine what the state machine decides
	instances/internal/records
	instances/lifecycle
	instances/run
	instances/template
	internal/access
	statebackend/format
	statebackend
	oci/artifact
	oci
	internal/text
	internal/states
	internal/rights
	internal/netaddr
	internal/jobs
	internal/addr
instances/templatesource: the sources of templates: files, and artifacts of the catalog
	instances/api
	instances/lifecycle
	instances/template
	internal/addr
	internal/catalog
	internal/description
	oci
	oci/artifact
instances/pages: pages of templates and instances, which show the answers of the API to the caller
	instances/api
	instances/lifecycle
	instances/template
	internal/access
	instances/internal/span
	instances/internal/plantext
	internal/rights
	internal/addr
	internal/service
	internal/states
	internal/text
	internal/web/site
	oci
instances/internal/span: time spans as users write them
instances/internal/plantext: the text form of a plan
instances/api: the documents of the API of instances
	instances/internal/prices
	instances/internal/span
instances/commands: commands of instances and templates; cli has what they share with okara's other commands
	instances/templatesource
	instances/internal/records
	oci
	statebackend
	instances/api
	instances/internal/portalclient
	instances/internal/ledger
	instances/template
	instances/internal/sandbox
	instances/internal/plantext
	instances/internal/span
	instances/internal/child
	internal/addr
	internal/catalog
	internal/cli
	internal/client
	internal/depot
	internal/text
instances/internal/portalclient: requests instances from a front-end; client connects to it
	oci
	instances/api
	internal/client
	internal/text
internal/workspaceclient: requests workspaces from a front-end; client connects to it
	oci
	internal/client
internal/web: puts the pages together and has the pages for administrators; other sets are passed in as values; it knows no registry and no other server
	internal/access
	internal/rights
	internal/addr
	internal/catalog
	internal/service
	internal/states
	internal/text
	internal/auditlog
	internal/web/catalogpages
	internal/web/markdown
	internal/web/site
	internal/web/statepages
	statebackend
internal/web/site: the frame and shared texts of all pages; it knows no set of pages
	statebackend/format
	oci
	internal/access
	internal/rights
	internal/addr
	internal/service
	internal/states
	internal/text
	statebackend
internal/web/catalogpages: pages of the catalog; additional content is passed in with its set of pages
	oci
	oci/artifact
	oci/artifact/evidence
	internal/rights
	internal/addr
	internal/archive
	internal/cache
	internal/catalog
	internal/description
	internal/downloads
	internal/scan
	internal/search
	internal/service
	internal/signing
	internal/text
	internal/trust
	internal/web/markdown
	internal/web/site
internal/web/statepages: pages of states, whose content is passed in
	statebackend/format
	oci
	internal/access
	internal/rights
	internal/addr
	internal/envelope
	internal/states
	internal/text
	internal/web/site
	statebackend
internal/web/markdown: turns texts of others into HTML without active content
	internal/cache
	internal/text
internal/states: compares state files, prepares states for display and explains errors with states; the caller checks rights
	statebackend/format
	oci
	oci/artifact
	statebackend
	internal/addr
	internal/cache
	internal/envelope
	internal/text
internal/webtest: a real browser and a login issuer for tests; it knows no page
	internal/access
	internal/rights
internal/syntax: turns text into syntax trees and settings
	internal/text
internal/buildinfo: leaf: the versions that a program was built from
internal/startup: leaf: runs before main
internal/text: leaf: sizes as users write them, safe display of untrusted words, and a pause
internal/metricstest: test package
internal/ocitest: test package
	*
internal/tofutest: test package
	*
internal/depottest: test package
	*
instances/internal/runtest: test package
	*
	internal/depottest
instances/portaltest: test package
	*
	internal/webtest
	internal/ocitest
internal/mutant: runs tests with one of their guards removed; it knows no package
internal/repotest: reads the tree, not the code
internal/conformance: a test module: registries and clients of others against our packages
	oci/artifact/evidence
	*
	internal/tofutest
internal/e2e: a test module that uses okara only as a process
internal/e2e/dist: builds what the end-to-end tests publish
internal/e2e/record: runs a script and draws its output
internal/e2e/perf: runs programs and measures them from outside
provider/cmd/terraform-provider-okara: starts the provider, which is another package
	internal/buildinfo
	provider/internal/plugin
provider/internal/plugin: the protocol of plugins over a Store; it imports as few packages as states, locks and versions need
	credentials
	oci
	oci/artifact/evidence
	statebackend
	internal/addr
	internal/backendblock
	internal/envelope
	internal/httpserve
	internal/lease
	internal/states
	internal/text
`
