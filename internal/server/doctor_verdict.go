// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend"
)

// verdictWait is how long the page waits for the repositories of states to be looked
// through, which happens once after the start.
const verdictWait = 2 * time.Second

// verdictFindings are what okara doctor last found out of each repository of states,
// and what is known of the registry by its name where it was never run.
func verdictFindings(ctx context.Context, s *states.States) (all []web.Finding) {
	ctx, cancel := context.WithTimeout(ctx, verdictWait)
	defer cancel()
	marked, whole := s.Marked(ctx)
	for _, m := range marked {
		if m.Verdict != nil {
			all = append(all, examined(m))
		}
	}
	if !whole {
		return append(all, web.Finding{
			Verdict: web.Look, About: "Locks of states", State: "not all repositories were looked at yet", Meaning: "More verdicts of okara doctor may be among them.", Do: "Load this page again in a moment.",
		})
	}
	if len(all) == 0 {
		all = append(all, unexamined(s.Host()))
	}
	return all
}

// examined is the verdict on one repository.
func examined(m states.Marks) web.Finding {
	v := m.Verdict
	f := web.Finding{
		About: "Locks in " + m.Repository,
		State: fmt.Sprintf("%s, examined on %s by %s", locking(v.Locking), v.Checked.UTC().Format(time.DateOnly), cmp.Or(text.Clip(v.Tool, 60), "an unknown tool")),
	}
	if v.Rounds > 0 {
		f.State += fmt.Sprintf("; %d conflicts and %d late lists in %d rounds", v.Conflicts, v.Stale, v.Rounds)
	}
	f.Verdict, f.Meaning, f.Do = meaning(*v)
	if f.Do != "" {
		f.Do += " Then run okara doctor on it again."
	}
	return f
}

// unexamined is what the name of a registry says.
func unexamined(host string) web.Finding {
	v, by := statebackend.HostVerdict(host), host+" by its name"
	if host == embedded.Host {
		by = "the registry of this server"
	}
	f := web.Finding{About: "Locks of states", State: fmt.Sprintf("%s: %s; no repository was examined", by, locking(v.Locking))}
	f.Verdict, f.Meaning, f.Do = meaning(v)
	if f.Do == "" {
		f.Do = "okara doctor REPOSITORY tests the registry, and keeps the verdict in the repository."
	}
	return f
}

func locking(verdict string) string {
	switch verdict {
	case statebackend.LockingExact:
		return "exact"
	case statebackend.LockingSettle:
		return "waits for the tag list to settle"
	}
	return "refused"
}

func meaning(v artifact.Verdict) (verdict web.Verdict, words, do string) {
	if v.Pointer == artifact.PointerStuck && v.Locking != statebackend.LockingRefused {
		return web.Look, "Locks work, but tags do not move: reads list the versions first, and other tools read an old state.",
			"Exempt state-*, locked-* and unlocked-* from the rule of the registry that keeps tags (not state-*-v*)."
	}
	switch v.Locking {
	case statebackend.LockingExact:
		return web.Fine, "A tag list shows a finished push, so that of two runs one gets the lock.", ""
	case statebackend.LockingSettle:
		return web.Fine, "Each lock waits two seconds and reads the tag list again.", ""
	}
	words = "Locking is refused: this registry cannot guarantee one holder."
	if v.Reason != "" {
		words += " The reason: " + text.Clip(v.Reason, 300) + "."
	}
	return web.Act, words, "Keep states in another registry, or in the registry behind this one."
}
