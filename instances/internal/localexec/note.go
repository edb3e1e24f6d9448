// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"encoding/json"
	"io/fs"
	"path/filepath"

	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/internal/files"
)

// attemptFile in a scratch folder records the lock and base version of an attempt. Only
// attempts that change something have it: others leave no state.
const attemptFile = "attempt.json"

// attemptNote is what this file says, for whoever finds a state in the folder.
type attemptNote struct {
	LockID string `json:"lock_id"`
	Base   int64  `json:"base"`   // version of the state at the start; 0: none
	Module string `json:"module"` // folder of the root module, in the tool's
}

// maxNote bounds that file, in bytes.
const maxNote = 1 << 20

// writeNote writes the note of an attempt, before its tool can leave a state.
func writeNote(scratch string, n attemptNote) error {
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return files.Replace(filepath.Join(scratch, attemptFile), b, 0o600)
}

// openErrored opens the state that an attempt left because it could not store it;
// fs.ErrNotExist if there is none.
func openErrored(scratch string) (*sandbox.Errored, attemptNote, error) {
	var note attemptNote
	b, err := files.ReadPrivate(filepath.Join(scratch, attemptFile), maxNote)
	if err != nil || json.Unmarshal(b, &note) != nil {
		return nil, note, fs.ErrNotExist // the attempt did not get that far
	}
	e, err := sandbox.OpenErrored(scratch, note.Module, maxState)
	return e, note, err
}

// findErrored returns the file name of such a state; "" if there is none.
func findErrored(scratch string) string {
	e, _, err := openErrored(scratch)
	if err != nil {
		return ""
	}
	_ = e.Close() // it was only looked for
	return e.Name
}

// maxState bounds such a state: the most that a store accepts.
const maxState = 512 << 20
