// SPDX-License-Identifier: Apache-2.0

// Package plugin is okara's provider for OpenTofu and Terraform, protocol 6.
//
// The state store okara_oci keeps states, their versions and their locks in an OCI
// registry as backend "oci" does, but with neither the wrapper nor a server: the tool
// itself calls it. The protocol for state stores is an experiment of Terraform; the
// stored data is the same as with every other access path. The data sources okara_state,
// okara_module_versions and okara_provider_versions work with every tool that speaks
// protocol 6.
//
// # Arguments
//
// The arguments are those of package backendblock, and the schemas are generated from its
// table. The framework has no blocks in state stores, so versioning and retry are objects
// and encryption is a list of objects.
//
// # Locks
//
// A lock belongs to this process. A tool starts one process for each command, and calls
// lock, read, write and unlock in it. Unlocking an ID that this process does not hold
// breaks that lock: this is `force-unlock`. A write without a lock of the tool
// (-lock=false) acquires its own lock.
//
// Terraform does not repeat a refused LockState, so -lock-timeout has no effect:
// lock_timeout makes the provider wait. StopProvider ends the waiting, and so does a
// signal to this process, since Terraform sends no request at that time. An attempt in
// progress is finished, and so is a write.
//
// With lock_ttl the store renews its lock. Like the wrapper, the provider stops the tool
// before the lease expires without a renewal: fencing protects the state, but nothing
// protects the resources that the tool changes. The tool is the parent of this process,
// which holds only if the process was started as a plugin.
//
// # Messages
//
// The first line of an error is the summary of its diagnostic, and the rest is the
// detail: the registry's response and a hint. Neither contains secrets, since the errors
// of oci and statebackend contain none.
package plugin
