// SPDX-License-Identifier: Apache-2.0

// Package bridge makes stock OpenTofu and Terraform keep their state in an OCI
// registry, without a fork or a plugin: `okara tofu apply` in a root module
// with
//
//	terraform {
//	  backend "oci" {
//	    repository = "registry.example.com/team/tofu-state"
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
//   - bucket: required by the backend; the name is a constant.
//   - key: names the repository, so that for the tool an edited repository is a
//     changed backend, for which it requires init -migrate-state. The facade
//     serves the old and the new key in that run.
//   - region: required; never used.
//   - profile, shared_config_files, shared_credentials_files: the port and the
//     access key change with each run, and the tools compare a backend block
//     with the one of the last init and of a saved plan. So the block has constant
//     values: paths below $OKARA_RUN, which the tools expand only when they open
//     the files. That variable is the only one added to the environment, since the
//     AWS providers of the configuration also read AWS_*.
//   - use_lockfile: locks by conditional writes to <key>.tflock, and the reason
//     why both tools must be 1.10 or newer.
//   - use_path_style: the bucket is in the path; it has no DNS name.
//   - skip_credentials_validation, skip_requesting_account_id: no request to AWS
//     for the account. The profile has static keys, so the backend does not ask the
//     metadata service either. skip_metadata_api_check must not be set, since the
//     backend implements it by AWS_EC2_METADATA_DISABLED in the environment of the
//     process, which providers and provisioners inherit.
//   - skip_region_validation: the unused region is not validated.
//   - max_retries: one attempt. okara repeats requests to the registry itself,
//     since it knows which of them may be repeated; a second layer would only
//     multiply the waiting when a registry is down.
//
// Folders that an older okara initialized have skip_metadata_api_check in their record,
// and in plans saved then. The record is corrected before the tool reads it, or the tool
// would require a new init; a saved plan keeps the argument.
//
// A data "terraform_remote_state" with backend = "oci" is overridden in the same way. Its
// repository may be an expression that only the tool can evaluate, so it stays an
// expression. workspace_key_prefix also contains it, since nothing else in a listing
// request identifies the registry. Only the root module is overridden: a child module
// must get remote state passed in.
//
// # The override file
//
// It is in the root module during a run, and shared by concurrent runs: each holds a
// shared file lock on it, and a run that can make that lock exclusive writes or removes
// it. The kernel drops the locks of a killed run, so the next one takes over its file. A
// file of that name without okara's first line is never touched. A user's override file
// that sorts after okara's and has a backend block is an error, since okara's would have
// no effect.
//
// # The directory of a run
//
// It is in the system's temporary directory, accessible only to this user, and contains a
// file that is locked during the run. A run first removes this user's directories with
// unlocked files, which killed runs left.
//
// # Partial configuration
//
// The first source that sets an argument wins: -backend-config, the block, an earlier
// -backend-config, TF_BACKEND_OCI_<NAME>. The tools would pass -backend-config to the s3
// backend, so okara removes it from their arguments and stores it in their data
// directory, where they store the result of theirs. A block without a repository uses
// that of the last init. Words of TF_CLI_ARGS and TF_CLI_ARGS_<command> count as if they
// were on the command line.
//
// If the block refers to variables or local values, OpenTofu's own console evaluates
// them, see evaluator. Terraform has no such evaluation.
//
// # Limits
//
// On Windows an interrupt reaches both programs through the console, and no other signal
// is forwarded.
//
// # Alternatives considered
//
// A plugin protocol for state stores is an experiment of one tool, which okara's provider
// supports. The http backend has no workspaces. Passing -backend-config instead of an
// override file cannot change the type of a backend, and only init accepts it. Endpoint
// and keys in AWS_* variables would be read by the AWS provider of the same run.
package bridge
