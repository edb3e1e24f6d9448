// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"time"

	"github.com/seed-141914ff/okara/internal/trail"
	"github.com/seed-141914ff/okara/internal/web"
	"github.com/seed-141914ff/okara/registry"
)

// queueFindings are the jobs of webhooks and of pull-through.
func queueFindings(m map[string][]sample) []web.Finding {
	count := func(state string) int { return total(m["okara_queue_jobs"], "state", state) }
	f := web.Finding{
		About:   "Queue",
		State:   fmt.Sprintf("%d waiting, %d running; %d done, %d failed, %d parked since the start", count("waiting"), count("running"), count("done"), count("failed"), count("parked")),
		Meaning: "Jobs that wait are tried by themselves until they are done.",
	}
	switch {
	case count("parked") > 0:
		f.Verdict, f.Meaning = web.Act, "A parked job was under way each time that a process ended, so nobody tries it again."
		f.Do = "Look at the log for the reason, and ask for it once more: okara doctor artifacts lists those that are parked."
	case count("failed") > 0:
		f.Verdict, f.Meaning = web.Look, "A job that failed was given up: what it should bring is not here."
		f.Do = "Mend what the error names; the log of the server has the job that it is of."
	}
	return []web.Finding{f}
}

// lastFailure adds to the finding of the queue why a job failed last.
func lastFailure(all []web.Finding, m *registry.Metrics) []web.Finding {
	if at, why := m.LastFailure(); !at.IsZero() {
		all[0].State += "; last error, of " + at.UTC().Format("2006-01-02 15:04 UTC") + ": " + why
	}
	return all
}

// depotFindings are the runs of the depot file in this process.
func depotFindings(m map[string][]sample) []web.Finding {
	var succeeded, failed float64
	for _, s := range m["okara_depot_last_run_timestamp_seconds"] {
		if s.labels["result"] == "failed" {
			failed = s.value
		} else {
			succeeded = s.value
		}
	}
	if succeeded == 0 && failed == 0 {
		return nil // none has ended here
	}
	at := func(t float64) string {
		if t == 0 {
			return "never since the start"
		}
		return time.Unix(int64(t), 0).UTC().Format("2006-01-02 15:04 UTC")
	}
	f := web.Finding{About: "Depot", State: "last run without a failure: " + at(succeeded), Meaning: "What the depot file names is brought in."}
	if failed > succeeded {
		f.Verdict, f.State = web.Act, f.State+"; last one with failures: "+at(failed)
		f.Meaning = fmt.Sprintf("The newest run could not bring in everything; %d failures since the start.", total(m["okara_depot_failures_total"], "", ""))
		f.Do = "okara depot plan says what is missing, and why."
	}
	return []web.Finding{f}
}

// replicaFindings are the processes that changed something on the day of now, by what
// they left in the registry.
func replicaFindings(v trail.View, now time.Time) []web.Finding {
	seen := map[string]bool{}
	for _, e := range v.Entries {
		if e.Time.UTC().Format(time.DateOnly) == now.UTC().Format(time.DateOnly) {
			seen[e.Process] = true
		}
	}
	if v.Read.IsZero() && len(seen) == 0 {
		return nil // the registry did not tell in time
	}
	return []web.Finding{{
		About: "Replicas", State: fmt.Sprintf("%d changed something today", len(seen)),
		Meaning: "Each process of the server counts, so one that was started again counts twice. One that changed nothing is not known.",
	}}
}
