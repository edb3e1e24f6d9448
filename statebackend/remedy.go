// SPDX-License-Identifier: Apache-2.0

package statebackend

// RemedyKind says what may help against an error.
type RemedyKind int

// The kinds of remedies. The zero kind has none but its cause.
const (
	RemedyRestore RemedyKind = iota + 1 // compare with Version, which keeps what was not written, and bring it back
	RemedyReseal                        // copy on, and seal anew
	RemedyPromote                       // take the copy over, once nothing writes to its source
	RemedyGoBack                        // take the workspace over, to go on from the version before Version
	RemedyProbe                         // examine the registry, or lock in spite of it
	RemedySeal                          // seal once what was never sealed
	RemedyDecrypt                       // open a version wherever it was found
	RemedyPrimary                       // name the original of a copy, or open the version
	RemedyKey                           // configure the key of Version
	RemedyUnlock                        // end Lock, whose holder could not release it
	RemedyAdopt                         // make Copy one of Repository although it has other versions, if Repository is what counts
)

// Remedy is what may help against an error: what to do, while the edges say how
// a person does it.
type Remedy struct {
	Kind                  RemedyKind
	Repository, Workspace string
	Version               int64
	Copy                  string // the repository that is to be a copy
	Lock                  string // its id
	Cause                 string // what may have led to the error; empty where the error says it
}

// RemediedError is an error against which something may help. A [LockedError]
// is one without this.
type RemediedError struct {
	Remedy Remedy
	err    error
}

func (e *RemediedError) Error() string { return e.err.Error() }
func (e *RemediedError) Unwrap() error { return e.err }
