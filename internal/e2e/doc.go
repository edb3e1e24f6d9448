// SPDX-License-Identifier: Apache-2.0

// Package e2e drives okara together with stock OpenTofu and Terraform, as processes,
// through every flow that a user has. Nothing is mocked: the tools and the provider are
// built from their pinned modules, and the registry is `okara serve` or the distribution
// program.
//
// TestDocs executes the pages of docs and the README. Scripts are testscript files, one
// topic each; job_* are whole jobs, listed in docs/tests.md:
//
//	testdata/each  runs twice, with $TOOL tofu and then terraform
//	testdata/tofu  OpenTofu only: oci:// sources, oci_mirror, and jobs in which
//	               the tool plays a small part
//	testdata/both  both tools in one script: state that they share
//
// Terraform is used if 1.10 or newer is on PATH; otherwise its tests are skipped and say
// so. Besides the usual commands, a script has
//
//	registry VAR [KIND]      a distribution process; $VAR is its host:port. Kind
//	                         nodelete refuses deletes, htpasswd wants the user ci
//	serve VAR [args...]      an `okara serve` process; $VAR is its host:port, $VAR_URL its URL
//	halt VAR                 ends either with SIGTERM and wants exit code 0
//	save stdout VAR          keeps what the last command wrote
//	says TEXT                the last command printed it, however the tool broke its lines
//	post URL FILE STATUS [USER:PASSWORD]  sends a file and wants that status
//
// and the variables $TOOL, $DIST (the packed time provider), $PROVIDER (okara's own provider,
// packed in the same way), $KEY (a key that signs them) and $MODULES (the modules in the
// repository's testdata). The home directory is empty.
package e2e
