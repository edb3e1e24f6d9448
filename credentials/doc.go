// SPDX-License-Identifier: Apache-2.0

// Package credentials decides which credentials okara uses for a repository and can explain the
// choice. Every existing login works: the configurations of Docker, Podman, ORAS, Helm and
// OpenTofu, credential helpers, and the tokens that CI systems give to a job.
//
// # The rule
//
// The most specific match wins: the exact repository, then the longer path prefix, then the host,
// then a default. Among equally specific matches the order of sources decides:
//
//  1. explicit settings: credentials given to okara itself
//  2. the OpenTofu or Terraform CLI configuration
//  3. credential helpers
//  4. static entries of Docker-style files
//  5. the environment of CI systems
//  6. anonymous access
//
// So an entry for a path in a Docker-style file beats an explicit setting for the whole host, and a
// static entry for a host beats credsStore, which names no host and is a default.
//
// A source that does not work, such as a file that is not JSON, one broken entry, or a helper that
// fails or hangs, is logged once and skipped. It never hides the others.
//
// # The sources
//
// The CLI configuration consists of TF_TOKEN_... variables, then oci_credentials, credentials and
// oci_default_credentials blocks. The files are chosen as OpenTofu chooses them: the one that
// TF_CLI_CONFIG_FILE names, or else *.tfrc and *.tfrc.json of ~/.terraform.d or
// $XDG_CONFIG_HOME/opentofu, and ~/.tofurc, ~/.terraformrc or $XDG_CONFIG_HOME/opentofu/tofurc; on
// Windows tofu.rc, terraform.rc and terraform.d below %APPDATA%. If two files have a credentials
// block for one host, the files in the folder win, later names before earlier ones. With
// discover_ambient_credentials = false only explicit settings and the CLI configuration are used,
// and docker_style_config_files replaces the default locations of Docker-style files. A token is
// sent unchanged, unless it has the form that EncodeToken returns. A credentials_helper block is
// ignored, as OpenTofu does for registries.
//
// Docker-style files are read in this order: the text of DOCKER_AUTH_CONFIG; the file named by
// REGISTRY_AUTH_FILE; $DOCKER_CONFIG/config.json; the containers auth.json below $XDG_RUNTIME_DIR
// or /run/containers/UID (Linux) and below $XDG_CONFIG_HOME or ~/.config; ~/.docker/config.json
// unless DOCKER_CONFIG is set; ~/.dockercfg; Helm's registry/config.json. The keys auths (with
// auth, username and password, identitytoken and registrytoken), credHelpers and credsStore are
// read. An entry whose key has a scheme applies to the whole host; others may include a path, as
// containers-auth.json(5) defines. All names of Docker Hub are equivalent.
//
// Helpers are those of credHelpers and credsStore. If nothing else was configured, the helpers of
// clouds are used for their hosts if they are on PATH: ecr-login, gcloud or gcr, and acr-env. A
// helper is asked for HOST, and then for https://HOST if it has no entry, since tools differ in
// what they store; once per host, until its answer expires (a JWT or an ECR password) or is
// rejected. One that takes longer than Options.HelperTimeout is stopped.
//
// The environment of CI systems has GITHUB_TOKEN for ghcr.io; CI_REGISTRY_USER and
// CI_REGISTRY_PASSWORD, or CI_JOB_TOKEN, for the host of CI_REGISTRY. These are defaults, although
// they name a host: a token that happens to be exported must not beat a login. So is the identity of
// a workload at the registries of its cloud, if Options.Identity is set.
//
// # Refusals
//
// The registry client calls Rejected when a registry refuses a credential and asks again, a few
// times at most. Helpers are then asked again, unless their answer is younger than ten seconds, and
// files read again, so a long run survives a rotated password. A credential that the registry does
// not know is skipped for ten minutes in favour of the next, unless it was given to okara itself.
// One whose owner lacks a right is not skipped, because no other identity was intended.
//
// # Alternatives considered
//
// Login and Logout write the file with oras-go 2.7.0, which keeps what it does not know; docker/cli
// 29.9.3 would drop unknown keys and refuse a file with one broken entry. For reading neither is
// used: both know only hosts, reject a whole file for one broken entry (docker/cli) or look only
// where Docker does, run helpers of the PATH without a timeout and with their stderr shown, and
// cannot explain what they considered. Their format types, and in tests their readers and writers,
// keep okara compatible.
//
// CLI configuration is read with version 1 of HCL: version 2 refuses files that the tools accept.
package credentials
