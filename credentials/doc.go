// SPDX-License-Identifier: Apache-2.0

// Package credentials decides which credentials okara uses for a repository
// and can say why. Whatever already logs in to a registry works: Docker,
// Podman, ORAS, Helm and OpenTofu configurations, credential helpers, and the
// tokens that CI systems give to a job.
//
// # The rule
//
// The most specific match wins: the exact repository, then the longer path
// prefix, then the host, then a default. Among equally specific matches the
// order of sources decides:
//
//  1. explicit settings: what was given to okara itself
//  2. the OpenTofu or Terraform CLI configuration
//  3. credential helpers
//  4. static entries of Docker-style files
//  5. the environment of CI systems
//  6. anonymous access
//
// Two things follow that may surprise. An entry for a path in a Docker-style
// file beats an explicit setting for the whole host. And a static entry for a
// host beats credsStore, because credsStore names no host and is a default.
//
// A source that does not work, be it a file that is not JSON, one broken entry
// or a helper that fails or hangs, is logged once and skipped. It never hides
// the others.
//
// # The sources
//
// The CLI configuration: TF_TOKEN_... variables, then oci_credentials,
// credentials and oci_default_credentials blocks. Files are the one that
// TF_CLI_CONFIG_FILE names, or else *.tfrc and *.tfrc.json of ~/.terraform.d
// or $XDG_CONFIG_HOME/opentofu, and ~/.tofurc, ~/.terraformrc or
// $XDG_CONFIG_HOME/opentofu/tofurc, as OpenTofu chooses them; on Windows
// tofu.rc, terraform.rc and terraform.d below %APPDATA%. Where two files have
// a credentials block for one host, the tools let the folder win, later names
// before earlier ones, and so does this package. With
// discover_ambient_credentials = false nothing but explicit settings and the
// CLI configuration is used, and docker_style_config_files replaces the places
// of Docker-style files. A token of a credentials block or TF_TOKEN_...
// variable is sent as it is, unless it has the form that EncodeToken gives. A
// credentials_helper block is not asked: it serves services, and OpenTofu does
// not ask it for registries either.
//
// Docker-style files, in this order: the text of DOCKER_AUTH_CONFIG; the file
// of REGISTRY_AUTH_FILE; $DOCKER_CONFIG/config.json; the containers auth.json
// below $XDG_RUNTIME_DIR or /run/containers/UID (Linux) and below
// $XDG_CONFIG_HOME or ~/.config; ~/.docker/config.json unless DOCKER_CONFIG is
// set; ~/.dockercfg; Helm's registry/config.json. From each are read auths
// with auth, username and password, identitytoken and registrytoken,
// credHelpers and credsStore. Keys with a scheme mean the whole host, as
// Docker writes them; keys without one may go on with a path, as
// containers-auth.json(5) defines. All names of Docker Hub are one.
//
// Helpers are those of credHelpers and credsStore, then, if they are on PATH
// and nothing else was configured, ecr-login, gcloud or gcr, and acr-env for
// the hosts of their clouds. A helper is asked for HOST, and if it has nothing
// for https://HOST, since tools differ in what they store. It is asked once
// per host until its answer expires or is rejected; an answer tells its end if
// it is a JWT or an ECR password. A helper that takes longer than
// Options.HelperTimeout is cut off. What it writes to stderr is dropped,
// because some helpers log secrets there.
//
// The environment: GITHUB_TOKEN for ghcr.io; CI_REGISTRY_USER and
// CI_REGISTRY_PASSWORD, or CI_JOB_TOKEN, for the host of CI_REGISTRY. These
// are defaults, although they name a host: a token that happens to be exported
// must not beat a login that sits in a keychain.
//
// # Refusals
//
// The registry client calls Rejected when a registry refuses a credential and
// asks again, a few times at most. Helpers are asked again then and files are read
// again, so a long run survives a rotated password. An answer younger than ten
// seconds is not asked for again: a helper has nothing newer behind it. A credential
// that nobody has there is passed over for ten minutes, and what comes next in order
// is tried, but not where it was given to okara itself. One whose owner lacks a right
// is not: another identity is not what was meant.
//
// # Alternatives considered
//
// The stores of docker/cli and oras-go were not used for reading. Both know
// hosts only, fail a whole file for one broken entry, and run helpers without
// a time-out; neither can say what it considered. Their file format types and,
// in tests, their writers are used, so that the formats stay theirs.
//
// CLI configuration is read with version 1 of HCL, which is what the tools
// use: version 2 refuses files that they accept.
package credentials
