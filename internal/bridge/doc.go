// SPDX-License-Identifier: Apache-2.0

// Package bridge makes stock OpenTofu and Terraform keep their state in an OCI
// registry, without a fork or a plugin: `okara tofu apply` in a root module
// with
//
//	terraform {
//	  backend "oci" {
//	    repository = "registry.example.com/state/shop"
//	  }
//	}
//
// [Read] finds the block, [Config.Override] builds an override file that replaces it
// with a backend "s3", and [Run] serves that backend's requests from the registry on a
// free loopback port (package s3facade) while the tool runs. Neither tool looks up a
// backend type before override files are merged, so neither reports "oci" as unknown.
//
// # Why each argument of the override is there
//
//   - bucket, region: required; constants. key: names the repository, so that an edited
//     one is for the tool a changed backend, for which it requires init -migrate-state.
//     The facade serves the old and the new key in that run.
//   - profile, shared_config_files, shared_credentials_files: port and access key change
//     with each run, and the tools compare a backend block with those of the last init and
//     of a saved plan. So the block has paths below $OKARA_RUN, which the tools expand only
//     when they open the files. That variable is the only one added to the environment,
//     since the AWS providers of the configuration also read AWS_*.
//   - use_lockfile: locks by conditional writes to <key>.tflock; why both tools must be
//     1.10 or newer. use_path_style: the bucket is in the path.
//   - skip_credentials_validation, skip_requesting_account_id, skip_region_validation: no
//     request to AWS. skip_metadata_api_check must not be set, since the backend implements
//     it by a variable that providers and provisioners inherit. Folders that an older okara
//     initialized have it in their record, which is corrected before the tool reads it, and
//     in plans saved then, which keep it.
//   - max_retries: one attempt, since okara repeats what may be repeated.
//
// A data "terraform_remote_state" with backend = "oci" is overridden in the same way. Its
// repository stays an expression that only the tool may evaluate. workspace_key_prefix also
// contains it, since nothing else in a listing request identifies the registry. Only the
// root module is overridden: a child module must get remote state passed in.
//
// # The override file
//
// It is in the root module during a run, and shared by concurrent runs: each holds a
// shared file lock on it, and a run that can make that lock exclusive writes or removes
// it. The kernel drops the locks of a killed run. A file of that name without okara's first
// line is never touched. A user's override file that sorts after okara's and has a backend
// block is an error. The directory of a run is in the system's temporary directory, for this
// user only, and has a file that is locked during the run; a run first removes this user's
// directories with unlocked files.
//
// # Partial configuration
//
// The first source that sets an argument wins: -backend-config, the block, an earlier
// -backend-config, TF_BACKEND_OCI_<NAME>. The tools would pass -backend-config to the s3
// backend, so okara removes it from their arguments and stores it in their data directory.
// A block without a repository uses that of the last init. Words of TF_CLI_ARGS and
// TF_CLI_ARGS_<command> count as if they were on the command line. If the block refers to
// variables or local values, OpenTofu's own console evaluates them, see evaluator;
// Terraform has no such evaluation. On Windows no signal but an interrupt reaches the tool.
//
// # Alternatives considered
//
// A plugin protocol for state stores is an experiment of one tool, which okara's provider
// supports. The http backend has no workspaces. Passing -backend-config instead of an
// override file cannot change the type of a backend, and only init accepts it. Endpoint
// and keys in AWS_* variables would be read by the AWS provider of the same run.
package bridge
