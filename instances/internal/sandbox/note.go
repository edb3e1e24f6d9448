// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"encoding/json"
	"io/fs"
	"path/filepath"

	"github.com/seed-141914ff/okara/internal/files"
)

// noteFile in a scratch folder records the lock and base version of an attempt. Only
// attempts that change something have it: others leave no state.
const noteFile = "attempt.json"

// Note says of an attempt what is needed to store a state that is found in its folder.
type Note struct {
	LockID string `json:"lock_id"` // of the lock of the state: see [run.LockID]
	Base   int64  `json:"base"`    // version of the state at the start; 0: none
	Module string `json:"module"`  // folder of the root module, in the tool's
}

// maxNote bounds that file, in bytes.
const maxNote = 1 << 20

// WriteNote writes the note of an attempt to its scratch folder, before its tool can leave
// a state.
func WriteNote(scratch string, n Note) error {
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return files.Replace(filepath.Join(scratch, noteFile), b, 0o600)
}

// OpenErrored opens the state that an attempt left in its scratch folder because it could
// not store it, and returns what its note says; fs.ErrNotExist if there is none. The
// caller must close the state.
func OpenErrored(scratch string) (*Errored, Note, error) {
	var note Note
	b, err := files.ReadPrivate(filepath.Join(scratch, noteFile), maxNote)
	if err != nil || json.Unmarshal(b, &note) != nil {
		return nil, note, fs.ErrNotExist // the attempt did not get that far
	}
	e, err := openErrored(scratch, note.Module, MaxErrored)
	return e, note, err
}

// FindErrored returns the file name of such a state, for display; "" if there is none.
func FindErrored(scratch string) string {
	e, _, err := OpenErrored(scratch)
	if err != nil {
		return ""
	}
	_ = e.Close() // it was only looked for
	return e.Name
}

// MaxErrored bounds such a state, in bytes: the most that a store accepts.
const MaxErrored = 512 << 20
