// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// slow is the maximum time in seconds in which a registry should send its header.
const slow = 1.0

// registryFindings report the requests to the registry, one finding for each operation.
func registryFindings(m samples) (all []web.Finding) {
	requests := m["okara_oci_requests_total"]
	for _, h := range m["okara_oci_request_seconds"] {
		registry := labelOf(h, "registry")
		operation := labelOf(h, "operation")
		of := slices.DeleteFunc(slices.Clone(requests), func(s *dto.Metric) bool {
			return labelOf(s, "registry") != registry || labelOf(s, "operation") != operation
		})
		bad := countFailures(of)
		f := web.Finding{
			About: "Registry " + registry + ", " + operation, State: fmt.Sprintf("%d of %d requests failed", bad, h.GetHistogram().GetSampleCount()),
			Meaning: "The registry responds quickly enough.",
		}
		bound, known := boundOf95(h.GetHistogram())
		if known {
			f.State += fmt.Sprintf("; 95 of 100 were answered within %s", time.Duration(bound*float64(time.Second)))
		}
		switch {
		case failsOften(bad, int(h.GetHistogram().GetSampleCount())):
			f.Verdict = web.Act
			f.Meaning = "At least one in ten requests failed, got no response, or exceeded a rate limit."
			f.Do = "Check the logs of the server and of the registry; okara admin doctor names what the registry does not support."
		case !known && h.GetHistogram().GetSampleCount() > 0 || bound > slow:
			f.Verdict = web.Look
			f.Meaning = "Requests not answered from a cache take that long."
			f.Do = "Check the load of the registry, and the network path to it."
		case bad > 0:
			f.Meaning = "Some requests failed. They are retried, and the caches are used in the meantime."
		}
		all = append(all, f)
	}
	return all
}

// originFindings report the requests to the origins of providers, one finding per rule.
func originFindings(m samples) (all []web.Finding) {
	byRule := map[string][]*dto.Metric{}
	var rules []string
	for _, s := range m["okara_origin_requests_total"] {
		rule := labelOf(s, "rule")
		if byRule[rule] == nil {
			rules = append(rules, rule)
		}
		byRule[rule] = append(byRule[rule], s)
	}
	for _, rule := range rules {
		bad := countFailures(byRule[rule])
		n := sumSamples(byRule[rule], "", "")
		f := web.Finding{About: "Origins of pull_through " + rule, State: fmt.Sprintf("%d of %d requests failed", bad, n), Meaning: "Providers that are not stored yet can be fetched."}
		if failsOften(bad, n) {
			f.Verdict = web.Look
			f.Meaning = "Providers that are not stored yet may not be available. Stored ones are still served."
			f.Do = "Check the log of the server, and the connection to the origin."
		}
		all = append(all, f)
	}
	return all
}

// countFailures counts requests without an answer, or with the status 429 or 5xx.
func countFailures(requests []*dto.Metric) (n int) {
	for _, s := range requests {
		if code, err := strconv.Atoi(labelOf(s, "code")); err != nil || code == 429 || code >= 500 {
			n += int(valueOf(s))
		}
	}
	return n
}

// failsOften reports whether a tenth or more failed, which is no accident.
func failsOften(bad, all int) bool { return bad > 0 && bad*10 >= all }

// verdictWait is how long the page waits for states to be examined, once after the start.
const verdictWait = 2 * time.Second

// verdictFindings report doctor's last verdict on each state repository, else that on the registry.
func verdictFindings(ctx context.Context, s *states.States) (all []web.Finding) {
	ctx, cancel := context.WithTimeout(ctx, verdictWait)
	defer cancel()
	marked, whole := s.Marked(ctx)
	for _, m := range marked {
		if m.Verdict != nil {
			all = append(all, examinedFinding(m))
		}
	}
	if !whole {
		return append(all, web.Finding{
			Verdict: web.Look, About: "Locks of states", State: "not all repositories were checked yet", Meaning: "More verdicts of okara admin doctor may be among them.", Do: "Reload this page in a moment.",
		})
	}
	if len(all) == 0 {
		all = append(all, unexaminedFinding(s.Host()))
	}
	return all
}

// examinedFinding returns the finding about the verdict on one repository.
func examinedFinding(m states.Marks) web.Finding {
	v := m.Verdict
	f := web.Finding{
		About: "Locks in " + m.Repository,
		State: fmt.Sprintf("%s, examined on %s by %s", lockingWords(v.Locking), v.Checked.UTC().Format(time.DateOnly), cmp.Or(text.Clip(v.Tool, 60), "an unknown tool")),
	}
	if v.Rounds > 0 {
		f.State += fmt.Sprintf("; %d conflicts and %d late lists in %d rounds", v.Conflicts, v.Stale, v.Rounds)
	}
	f.Verdict, f.Meaning, f.Do = verdictMeaning(*v)
	if f.Do != "" {
		f.Do += " Then run okara admin doctor on it again."
	}
	return f
}

// unexaminedFinding returns the finding that follows from the host name of a registry.
func unexaminedFinding(host string) web.Finding {
	v := statebackend.HostVerdict(host)
	by := host + " by its name"
	if host == httpserve.OwnRegistry {
		by = "the registry of this server"
	}
	f := web.Finding{About: "Locks of states", State: fmt.Sprintf("%s: %s; no repository was examined", by, lockingWords(v.Locking))}
	f.Verdict, f.Meaning, f.Do = verdictMeaning(v)
	f.Do = cmp.Or(f.Do, "okara admin doctor REPOSITORY tests the registry, and stores the verdict in the repository.")
	return f
}

func lockingWords(verdict string) string {
	switch verdict {
	case statebackend.LockingExact:
		return "exact"
	case statebackend.LockingSettle:
		return "waits for the tag list to settle"
	}
	return "refused"
}

func verdictMeaning(v format.Verdict) (verdict web.Verdict, words, do string) {
	if v.Pointer == format.PointerStuck && v.Locking != statebackend.LockingRefused {
		return web.Look, "Locks work, but tags do not move: reads list the versions first, and other tools read an old state.",
			"Exempt state-*, locked-* and unlocked-* from the registry's immutable-tag rule (not state-*-v*)."
	}
	switch v.Locking {
	case statebackend.LockingExact:
		return web.Fine, "A tag list shows every finished push, so only one of two runs gets the lock.", ""
	case statebackend.LockingSettle:
		return web.Fine, "Each lock waits two seconds and reads the tag list again.", ""
	}
	words = "Locking is refused: this registry cannot guarantee one holder."
	if v.Reason != "" {
		words += " The reason: " + text.Clip(v.Reason, 300) + "."
	}
	return web.Act, words, "Keep states in another registry, or in the registry behind this one."
}
