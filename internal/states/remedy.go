// SPDX-License-Identifier: Apache-2.0

package states

import (
	"fmt"
	"strings"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// Remedy returns the message of err with the hints of all errors in it.
func Remedy(err error) string { return insertHints(err.Error(), err) }

// insertHints puts the hints of err and of what it wraps into text.
func insertHints(text string, err error) string {
	if hint := hintOf(err); hint != "" {
		return strings.Replace(text, err.Error(), err.Error()+"\nhint: "+hint, 1)
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if e.Unwrap() != nil {
			return insertHints(text, e.Unwrap())
		}
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			text = insertHints(text, err)
		}
	}
	return text
}

// hintOf returns the hint for err itself, not for errors that it wraps.
func hintOf(err error) string {
	switch e := err.(type) {
	case *statebackend.LockedError:
		return lockedHint(e)
	case *statebackend.RemediedError:
		return remedyHint(e.Remedy)
	}
	return ""
}

func lockedHint(e *statebackend.LockedError) string {
	switch {
	case e.Unreadable:
		return fmt.Sprintf("if the registry crashed while it wrote this tag, nobody holds the lock; retrying for a minute releases it, or release it now: okara state unlock %s -w %s --id %s",
			e.Repository, text.ShellWord(e.Workspace), text.ShellWord(e.Held.ID))
	case e.Held.ID != "":
		return "if that run is gone: " + UnlockCommand(e.Repository, e.Workspace, e.Held.ID)
	}
	return ""
}

func remedyHint(r statebackend.Remedy) string {
	const decrypt = "`okara state decrypt` decrypts a version from any location"
	repo := r.Repository
	ws := text.ShellWord(r.Workspace)
	how := ""
	switch r.Kind {
	case statebackend.RemedyRestore:
		how = fmt.Sprintf("compare with `okara state diff %s %d -w %s`, restore it with `okara state restore %s %d -w %s`", repo, r.Version, ws, repo, r.Version, ws)
	case statebackend.RemedyReseal:
		how = "continue with `okara state replicate --reseal`"
	case statebackend.RemedyPromote:
		how = fmt.Sprintf("once nothing writes there any more: okara state unlock %s --take-over", repo)
	case statebackend.RemedyGoBack:
		how = fmt.Sprintf("if the registry crashed while it wrote version %d, it was never acknowledged; okara state unlock %s -w %s --take-over continues from the version before it", r.Version, repo, ws)
	case statebackend.RemedyProbe:
		how = fmt.Sprintf("check with `okara admin doctor %s`; unsafe_locking = true overrides", repo)
	case statebackend.RemedySeal:
		how = fmt.Sprintf("if no key was ever used here, encrypt it once: `okara state pull %s -w %s -o FILE` without keys, then `okara state push %s FILE -w %s` with them; otherwise someone replaced it", repo, ws, repo, ws)
	case statebackend.RemedyDecrypt:
		how = decrypt
	case statebackend.RemedyAdopt:
		how = fmt.Sprintf("it does not catch up automatically; if %s is the primary now, okara state replicate --adopt %s %s makes the other its copy and keeps the versions that only the other has", repo, repo, r.Copy)
	case statebackend.RemedyUnlock:
		how = "once the registry is back: " + UnlockCommand(repo, r.Workspace, r.Lock)
	case statebackend.RemedyKey:
		how = keyHint(r)
	case statebackend.RemedyPrimary:
		how = "if this is a copy, set the original: primary_repository in the backend block, --primary-repository of the state commands, layout.state_primary of okara serve; " + decrypt
	}
	if r.Cause != "" && how != "" {
		return r.Cause + "; " + how
	}
	return r.Cause + how
}

// KeyOptions are the settings that name a key of a sealed state.
const KeyOptions = "encryption in the backend block, --key or OKARA_STATE_KEYS, for age --identity or OKARA_STATE_IDENTITIES"

func keyHint(r statebackend.Remedy) string {
	if r.Repository == "" {
		return "set its key: " + KeyOptions
	}
	return fmt.Sprintf("`okara state keys %s -w %s` shows which key it is; set it: %s", r.Repository, text.ShellWord(r.Workspace), KeyOptions)
}

// UnlockCommand returns the command that ends a lock, quoted for a shell.
func UnlockCommand(repository, workspace, id string) string {
	return fmt.Sprintf("okara state unlock %s -w %s --id %s", text.ShellWord(repository), text.ShellWord(workspace), text.ShellWord(format.ShownID(id)))
}
