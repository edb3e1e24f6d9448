// SPDX-License-Identifier: Apache-2.0

// Package kindrun carries out the objects of generated kinds: each is a run of the module
// of its definition.
//
// An object runs in a namespace of its own, okara-run-<uid>, with an account, copies of
// the Secrets that it reads, and nothing else; the text of a plan and the outputs that
// the definition allows are copied out of it. So who may write in the namespace of the
// object reads neither plans nor tokens, and that namespace can be deleted freely. Where
// the definition says so it runs beside the object instead.
//
// # Order
//
// The finalizer okara.dev/run is there before anything else is. Then: the namespace and
// the account, the state and its token ([runaccess.Access]), copies, the objects of Flux
// ([fluxexec.Executor]), and what came of them into the status. Each step finds what an
// earlier call made, so that the operator may be killed between any two.
//
// Deletion goes the other way, and takes one step after the other: the Terraform is
// deleted and waited for, while all that its last run reads is kept there; the state is
// deleted if nothing hangs on it; then Secrets, copies and roles; the namespace; the
// finalizer. Where the state has resources left the object stays, with the reason
// DestroyFailed, until a retry ends well or an administrator sets okara.dev/abandon to
// the name of the object: then the state stays, and all else goes.
//
// An object whose state belongs to another one, which a backup may have restored, is
// suspended (StateNotOwned). Its deletion destroys nothing.
package kindrun
