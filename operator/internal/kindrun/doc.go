// SPDX-License-Identifier: Apache-2.0

// Package kindrun reconciles the objects of generated kinds: each is a run of the module of
// its definition.
//
// An object runs in a namespace of its own, okara-run-<uid>, with an account, copies of
// the Secrets that it reads, and nothing else; the text of a plan and the outputs that
// the definition allows are copied out of it. So a right to write in the namespace of the
// object gives access to neither plans nor tokens, and that namespace can be deleted
// freely. If the definition says so, the object runs in its own namespace instead.
//
// # Order
//
// The finalizer okara.dev/run is added before anything else is created. Then follow the
// namespace and the account, the state and its token ([runaccess.Access]), copies, the
// objects of Flux ([fluxexec.Executor]), and the results in the status. Each step finds
// what an earlier call made, so that the operator may be killed between any two.
//
// Deletion goes the other way, one step after the other: the Terraform is deleted and
// waited for, while all that its last run reads is kept; the state is deleted if it has no
// resources; then Secrets, copies and roles; the namespace; the finalizer. If the state
// still has resources the object stays, with the reason DestroyFailed, until a retry
// succeeds or an administrator sets okara.dev/abandon to the name of the object: then the
// state stays, and all else goes.
//
// An object whose state belongs to another object, which a restored backup can cause, is
// suspended (StateNotOwned). Its deletion destroys nothing.
package kindrun
