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
// [Read] finds the block, [Config.Override] makes an override file that puts a
// backend "s3" in its place, and [Run] serves that backend's requests from the
// registry on a free loopback port (package s3facade) while the tool runs.
// Neither tool looks a backend type up before override files are merged, so it
// never learns that "oci" is unknown to it.
//
// # Why each argument of the override is there
//
//   - bucket: required by the backend; the name is a constant.
//   - key: names the repository, so that an edited repository is a changed
//     backend for the tool, which then asks for init -migrate-state. The facade
//     serves the old and the new key in that run.
//   - region: required; never used.
//   - profile, shared_config_files, shared_credentials_files: the port and the
//     access key change with each run, and the tools compare a backend block
//     with the one of the last init and of a saved plan. So the block has a
//     constant: paths below $OKARA_RUN, which the tools expand only when they
//     open the files. That variable is the only one added to the environment,
//     since the AWS providers of the configuration read AWS_* too.
//   - use_lockfile: locks by conditional writes to <key>.tflock, and the reason
//     that both tools must be 1.10 or newer.
//   - use_path_style: the bucket is in the path; there is no DNS for it.
//   - skip_credentials_validation, skip_requesting_account_id: nothing asks AWS
//     who we are. The profile has static keys, so the backend does not ask the
//     metadata service either; skip_metadata_api_check must stay away, since the
//     backend obeys it by AWS_EC2_METADATA_DISABLED in the environment of the
//     process, which providers and provisioners inherit.
//   - skip_region_validation: nothing checks the unused region.
//   - max_retries: one attempt. Requests to the registry are repeated by okara,
//     which knows which of them may be; a second layer would only multiply the
//     waiting when a registry is down.
//
// Folders that an older okara initialized have skip_metadata_api_check in their
// record, and in a plan saved then. The record is corrected before the tool sees
// it, else it would ask for a new init; a saved plan keeps the argument.
//
// A data "terraform_remote_state" with backend = "oci" is overridden the same
// way. Its repository may be an expression that only the tool can evaluate, so
// it stays an expression; workspace_key_prefix has it too, since a listing
// request carries nothing else that would tell which registry to ask. Only the
// root module is overridden: a child module that reads remote state must get
// it passed in.
//
// # The override file
//
// It is in the root module while a run goes on, and shared by runs that go on
// at once: each holds a shared file lock on it, and whoever can make that lock
// exclusive writes or removes it. The kernel drops the locks of a killed run,
// so what it left is taken over by the next one. A file of that name without
// our first line is never touched. An override file of the user that sorts
// after ours and has a backend block is an error, as ours would have no effect.
//
// # The directory of a run
//
// It is in the system's temporary directory, for this user alone, and has a
// file that is locked while the run goes on. A run first removes the
// directories of this user whose lock nobody holds: those of killed runs.
//
// # Partial configuration
//
// The first that sets an argument wins: -backend-config, the block, what an
// earlier -backend-config set, TF_BACKEND_OCI_<NAME>. The tools would give
// -backend-config to the s3 backend, so it is taken out of their arguments and
// kept in their data directory, as they keep the result of theirs. A block
// without a repository uses that of the last init. Words of TF_CLI_ARGS and
// TF_CLI_ARGS_<command> count as those of the command line do.
//
// Where the block refers to variables or local values, OpenTofu's own console evaluates
// them, see evaluator. Terraform has no such evaluation.
//
// # Limits
//
// On Windows an interrupt reaches both programs through the console, and nothing else
// is passed on.
//
// # Alternatives considered
//
// A plugin protocol for state stores is an experiment of one tool, which okara's
// provider takes part in. The http backend knows no workspaces. Passing -backend-config instead of an override
// file cannot change the type of a backend, and only init takes it. Endpoint and
// keys by AWS_* variables would be read by the AWS provider of the same run.
package bridge
