// SPDX-License-Identifier: Apache-2.0

// Package plugin is okara's provider for OpenTofu and Terraform, protocol 6.
//
// It has a state store, okara_oci, which keeps states, their versions and their
// locks in an OCI registry as backend "oci" does, with neither the wrapper nor a
// server: the tool itself calls it. The protocol for it is an experiment of
// Terraform; what is stored is the same as through every other door. The data
// sources okara_state, okara_module_versions and okara_provider_versions work with
// every tool that speaks protocol 6.
//
// # Arguments
//
// They are those of package backendblock, whose table the schemas are made from.
// The framework has no blocks in state stores, so versioning and retry are objects
// and encryption is a list of them.
//
// # Locks
//
// A lock belongs to this process. A tool starts one process for each command, and
// calls lock, read, write and unlock in it. An id that this process does not hold
// is unlocked by force: that is `force-unlock`. A write without a lock of the tool
// (-lock=false) takes one for itself.
//
// Terraform does not repeat LockState when it is refused, so -lock-timeout has no
// effect: lock_timeout makes the provider wait. StopProvider ends the waiting, and so
// does a signal to this process, since Terraform tells it nothing at that time; an
// attempt that was begun is finished, and so is a write.
//
// With lock_ttl the store renews its lock, and as the wrapper does the provider
// stops the tool before the lease is over without a sign of life: fencing protects
// the state, and nothing protects what the tool changes. The tool is the parent of
// this process, which is only true where it was started as a plugin.
//
// # Messages
//
// The first line of an error is the summary of its diagnostic, and what follows is
// the detail: what the registry said and what helps. Neither has a secret, as the
// errors of oci and statebackend have none.
package plugin
