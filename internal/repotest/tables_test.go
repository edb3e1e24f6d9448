// SPDX-License-Identifier: Apache-2.0

package repotest_test

// mounts lists the packages outside of instances and the operator that depend on the
// platform: the command that mounts it, and tests of shared code that use a portal.
const mounts = `
cmd/okara: it mounts the platform; tests of both as one program
	instances
	instances/commands
	instances/settings
internal/web: tests of all pages
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
const allowed = allowedOperator + `cmd/okara: the command wires everything together; of instances it mounts what they offer; test packages never reach a user
	*
	!instances/api
	!instances/internal/portalclient
	!instances/internal/ledger
	!instances/lifecycle
	!instances/pages
	!instances/portal
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
internal/checkout: what git and a CI job say of a folder; nothing is published here
	oci/artifact
	internal/addr
	internal/text
internal/cli: what the commands of cmd/okara and of instances share, and how a command line ends; the words for each error are its affair, so it knows where errors come from
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
statebackend: a state store is a repository with rules; nothing above it may matter to the lock
	statebackend/format
	statebackend/internal/protocol
	oci
	oci/artifact
	internal/text
statebackend/format: what states look like in a repository; who may write which is the store's
	oci
	oci/artifact
	internal/text
statebackend/internal/protocol: the lock is a pure machine: what the tags of a workspace are called, and which errors pass, is all it knows of a registry
	statebackend/format
	oci
statebackend/httpbackend: a protocol over a Store; httpserve names requests
	statebackend/format
	oci
	statebackend
	internal/httpserve
	internal/states
statebackend/tfe: a protocol over a Store that decides about rights itself, since an id in the path says what they are about; archive and files read what is uploaded to be run
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
statebackend/tfe/variables: records beside the states of a repository; who may see them is the caller's
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
statebackend/doctor: it examines a repository that it is given; how one is reached is the caller's
	statebackend/format
	oci
	oci/artifact
	statebackend
statebackend/foreign: it reads states that others wrote; where a file or repository is named is the caller's
	internal/text
	statebackend/format
	oci
	oci/artifact
	statebackend
credentials: it fills oci.CredentialFunc and nothing else; a token goes over https, or stays on this machine
	oci
	internal/netaddr
	internal/files
oci: the client of one registry knows bytes, digests and tags, never what they mean
	internal/netaddr
	internal/text
oci/artifact: what each kind looks like, never flags, files of the user or servers
	oci
	internal/addr
	internal/text
oci/artifact/evidence: what is attached to a version, as it is stored; whether it is believed is for signing and trust
	oci
	oci/artifact
	internal/addr
	internal/text
internal/sample: made-up content of a server to try; it publishes as a client does
	oci
	oci/artifact/evidence
	internal/statictoken
	internal/rights
	internal/addr
	internal/depot
	internal/files
	internal/signing
	internal/text
internal/supply: a declared set kept in step with its upstreams; one runner at a time comes in as a func, so that state stays out
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
internal/importer: entries and objects made of what somebody has elsewhere; it publishes nothing
	oci
	internal/addr
	internal/depot
	internal/supply
	internal/text
	internal/upstream
internal/trust: who vouches for a version, and whether that is enough; how a registry is reached is the caller's
	oci
	oci/artifact
	oci/artifact/evidence
	internal/addr
	internal/archive
	internal/description
	internal/signing
	internal/scan
	internal/files
internal/signing: names and packages of a release; it reads what it is given
	oci
	oci/artifact
	internal/addr
	internal/archive
	internal/files
	internal/text
internal/depot: publishing one version at a time; what is wanted, and what gates ask for, comes in as values
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
internal/client: it publishes through a front-end what depot would publish into a registry, and has what is there read in the same way; it knows no registry
	oci
	oci/artifact
	oci/artifact/evidence
	internal/addr
	internal/depot
	internal/signing
	internal/text
internal/upstream: it only reads other people's registries; a library wants known hosts as a file
	internal/netaddr
	oci
	oci/artifact
	oci/artifact/evidence
	internal/addr
	internal/signing
	internal/files
	internal/text
internal/server: it puts the handlers on one port; flags, credentials and the words of a terminal come in as values
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
internal/cache: values in memory and archives on disk; what they are of is their readers' affair
	oci
	internal/files
internal/search: finds entries by their words, and asks nobody; what is in them comes in
	internal/addr
	internal/text
internal/catalog: what depot wrote, read through caches and screened; revoked keys are taken out of what is served, so it reads keys; signing names the files of an index that does not
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
internal/downloads: counts under tags; who counts what is the caller's
	internal/taglog
	internal/text
	oci
	oci/artifact
internal/auditlog: what processes changed, under tags; who may see it is the caller's; access says what a status is as an outcome
	internal/taglog
	oci
	oci/artifact
	internal/access
	internal/text
internal/jobs: a queue in a repository; what its jobs do is their handlers' affair
	internal/taglog
	oci
	oci/artifact
	internal/text
internal/lockfile: hashes of what depot could mirror, for what a configuration requires
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
internal/plugincache: packages of providers that inits share; what a lock file says is lockfile's, and where packages are the caller's
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
internal/rights: what a right is, compared with what a rule grants; pure
	internal/addr
	internal/text
internal/keyring: signing and sealing with the keys of a server; nothing of ours is below it
internal/statictoken: static tokens and the files that list them
	internal/files
	internal/rights
	internal/text
internal/access: who may do what; it knows names and rights, not what is behind them; httpserve names requests
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
internal/service: what the services of a server share; it knows clients and refusals, not what is served
	oci
	internal/access
	internal/httpserve
	internal/text
internal/backendblock: values in, a Store out; what is written in files is its callers' affair
	oci
	statebackend
	internal/envelope
	internal/httpserve
internal/bridge: it runs a tool beside a facade over the Store that a backend block describes
	statebackend
	statebackend/s3facade
	internal/addr
	internal/backendblock
	internal/text
	internal/files
	internal/httpserve
	internal/lease
	internal/syntax
internal/lease: it watches a lock and ends a process; neither is its own
	statebackend
internal/addr: leaf: pure names
internal/archive: trees and bytes
	internal/files
internal/bundle: files that carry what depot published; how a registry is reached is depot's
	oci
	oci/artifact
	oci/artifact/evidence
	internal/addr
	internal/depot
	internal/files
	internal/signing
	internal/trust
internal/pieces: what belongs to one version of what depot published; who may have it is decided elsewhere
	oci
	oci/artifact/evidence
	internal/addr
	internal/depot
internal/files: leaf: files of the user, and temporary ones
internal/netaddr: leaf: what an address says
internal/embedded: leaf: a handler
	internal/text
internal/envelope: bytes in, bytes out
	internal/files
internal/httpserve: both ends of HTTP
	internal/netaddr
	internal/files
	internal/text
internal/scan: leaf: runs a program, reads its report
internal/images: it builds programs and packs them; what they do is their affair
	oci
	internal/addr
	internal/bundle
	internal/depot
	internal/embedded
	internal/files
instances/template: what may be launched, read, checked and rendered by pure functions; where it comes from is its loader's
	instances/internal/schema
	instances/internal/timetable
	internal/addr
	internal/syntax
	internal/text
instances/lifecycle: the life of instances is a pure machine, without input or output
	instances/internal/prices
	instances/internal/timetable
	instances/template
	internal/addr
	internal/syntax
	internal/text
instances/internal/prices: leaf: what a plan costs by a table; who runs the tool brings its plan
instances/internal/schema: leaf: values and what they may be
instances/internal/timetable: leaf: when something is stopped and started, by the clocks of a time zone
instances/internal/sandbox: leaf: the folder that the tool of a run can write, which nobody else uses by name
instances/internal/localexec: one run of the tool on this machine; whether its attempt is still named comes in as a func
	instances/internal/prices
	instances/internal/records
	statebackend/format
	oci
	oci/artifact
	statebackend
	statebackend/s3facade
	internal/addr
	internal/archive
	internal/bridge
	internal/files
	internal/envelope
	internal/httpserve
	internal/plugincache
	internal/upstream
	instances/lifecycle
	instances/template
	instances/run
	internal/text
	internal/states
	instances/internal/sandbox
instances/run: what an executor is, and what an attempt leaves in the registry
	instances/internal/prices
	instances/internal/records
	instances/lifecycle
	instances/template
	oci
instances: it mounts the platform into a server, as an extension that the core knows by an interface
	instances/templatesource
	instances/internal/records
	oci
	statebackend
	statebackend/tfe
	internal/access
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
instances/settings: the blocks of a file that are about instances, and what they mean
	instances/templatesource
	instances/internal/prices
	instances/lifecycle
	instances/template
	instances/portal
	internal/addr
	internal/files
	internal/syntax
	internal/text
instances/internal/ledger: the document of the machine under the lock of a state; who forwards to its leader, and what is done with effects, is the caller's
	statebackend/format
	oci
	statebackend
	internal/files
	instances/lifecycle
	instances/template
instances/internal/records: what an instance leaves in the registry, never what it means
	oci
	oci/artifact
	internal/addr
	internal/text
instances/portal: the API of instances over a store that is passed in
	instances/internal/timetable
	internal/description
	instances/internal/records
	statebackend/format
	oci
	oci/artifact
	statebackend
	internal/access
	instances/internal/span
	internal/rights
	internal/addr
	internal/httpserve
	instances/lifecycle
	instances/template
	internal/jobs
	internal/netaddr
	instances/api
	instances/run
	internal/service
	internal/states
	internal/text
instances/templatesource: where templates come from: files, and artifacts of the catalog
	instances/api
	instances/lifecycle
	instances/template
	internal/addr
	internal/catalog
	internal/description
	oci
	oci/artifact
instances/pages: pages of templates and instances, which show what the API answers to who asks
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
instances/api: what the API of instances says
	instances/internal/prices
	instances/internal/span
instances/commands: commands of instances and templates; what they share with okara's other commands is cli's
	instances/templatesource
	instances/internal/records
	oci
	statebackend
	instances/api
	instances/internal/portalclient
	instances/internal/ledger
	instances/internal/localexec
	instances/template
	instances/internal/sandbox
	instances/internal/plantext
	instances/internal/span
	internal/addr
	internal/catalog
	internal/cli
	internal/client
	internal/depot
	internal/text
instances/internal/portalclient: it asks a front-end for instances; how one is reached is client's
	oci
	instances/api
	internal/client
	internal/text
internal/workspaceclient: it asks a front-end for workspaces; how one is reached is client's
	oci
	internal/client
internal/web: it puts the pages together, and has those of who runs the server; other sets come in as values; it knows no registry and no other server
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
internal/web/site: the frame of all pages, and their words; it knows no set of pages
	statebackend/format
	oci
	internal/access
	internal/rights
	internal/addr
	internal/service
	internal/states
	internal/text
	statebackend
internal/web/catalogpages: pages of what the catalog has; what else belongs on them comes in with its set of pages
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
internal/web/statepages: pages of states over what is known of them, which comes in
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
internal/web/markdown: texts of others in, HTML that does nothing out
	internal/cache
	internal/text
internal/states: state files compared, states read to be looked at, and what helps against an error of theirs; who may see them is the caller's
	statebackend/format
	oci
	oci/artifact
	statebackend
	internal/addr
	internal/cache
	internal/envelope
	internal/text
internal/webtest: a real browser for tests, and whom people log in at; it knows no page
	internal/access
	internal/rights
internal/syntax: text in, syntax trees and settings out
	internal/text
internal/buildinfo: leaf: what a program was built from
internal/startup: leaf: acts before main does
internal/text: leaf: sizes as people write them, words of strangers that are safe to show, and a pause
internal/metricstest: test package
internal/ocitest: test package
	*
internal/tofutest: test package
	*
internal/depottest: test package
	*
instances/portaltest: test package
	*
	internal/webtest
	internal/ocitest
internal/mutant: it runs tests without a guard of theirs; it knows no package
internal/repotest: it reads the tree, not the code
internal/conformance: a test module: other people's registries and clients on our packages
	oci/artifact/evidence
	*
	internal/tofutest
internal/e2e: a test module that knows okara as a process only
internal/e2e/dist: it builds what the end-to-end tests publish
internal/e2e/record: it runs a script and draws what that prints
internal/e2e/perf: it runs programs and measures them from outside
provider/cmd/terraform-provider-okara: it starts the provider; what it does is a package
	internal/buildinfo
	provider/internal/plugin
provider/internal/plugin: the protocol of plugins over a Store; as few packages as states, locks and versions take
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
internal/e2e/instances: a demonstration; it knows okara as a process only
`
