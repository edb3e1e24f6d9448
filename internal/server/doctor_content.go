// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"time"

	"github.com/seed-141914ff/okara/internal/auditlog"
	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web"
	"github.com/seed-141914ff/okara/registry"
)

// endFindings report the keys and the certificate that end soon.
func endFindings(m samples, certificate, now time.Time) (all []web.Finding) {
	keys := m["okara_key_expiry_seconds"]
	for _, s := range keys {
		if end := time.Unix(int64(valueOf(s)), 0); end.Sub(now) < soon {
			all = append(all, endingFinding("Key "+labelOf(s, "key")+" of "+labelOf(s, "address"), end, now,
				"Tools refuse a provider whose key has expired.", "Sign the versions with a new key, and publish them again."))
		}
	}
	if len(keys) > 0 && len(all) == 0 {
		all = append(all, web.Finding{About: "Keys of providers", State: fmt.Sprintf("%d with an expiry date were served", len(keys)), Meaning: "None of them expires within 60 days."})
	}
	if !certificate.IsZero() {
		f := endingFinding("Certificate of this server", certificate, now, "Tools and browsers refuse to connect from then on.", "Replace it and restart the server.")
		if f.Verdict == web.Fine {
			f.Meaning = "It does not expire within 60 days."
			f.Do = ""
		}
		all = append(all, f)
	}
	return all
}

func endingFinding(about string, end, now time.Time, meaning, do string) web.Finding {
	f := web.Finding{About: about, State: "expires on " + end.UTC().Format(time.DateOnly), Meaning: meaning, Do: do}
	switch left := end.Sub(now); {
	case left <= 0:
		f.Verdict = web.Act
		f.State = "expired on " + end.UTC().Format(time.DateOnly)
	case left < soon:
		f.Verdict = web.Look
	}
	return f
}

// contentFindings report wrong or refused content of the registry.
func contentFindings(m samples) (all []web.Finding) {
	checks := m["okara_policy_checks_total"]
	if refused, n := sumSamples(checks, "result", "refused"), sumSamples(checks, "", ""); n > 0 {
		f := web.Finding{About: "Policy", State: fmt.Sprintf("%d of %d checks refused a version", refused, n), Meaning: "All served versions are signed and scanned as the require blocks demand."}
		if refused > 0 {
			f.Verdict = web.Look
			f.Meaning = "Refused versions are not served."
			f.Do = "The versions page shows the reason to users who may publish there."
		}
		all = append(all, f)
	}
	if n := sumSamples(m["okara_tag_moved_total"], "", ""); n > 0 {
		all = append(all, web.Finding{
			Verdict: web.Act, About: "Tags of providers", State: fmt.Sprintf("%d were moved to other content", n),
			Meaning: "A published version was replaced. The lock files of its users no longer match.", Do: "The log names them. Find out who wrote to the registry.",
		})
	}
	if n := sumSamples(m["okara_digest_mismatch_total"], "", ""); n > 0 {
		all = append(all, web.Finding{
			Verdict: web.Act, About: "Digests", State: fmt.Sprintf("%d responses of the registry did not match their digest", n),
			Meaning: "The registry, or something in between, alters or truncates its responses. They were never served as complete.", Do: "Check the disk of the registry, and proxies in front of it.",
		})
	}
	if n := sumSamples(m["okara_audit_dropped_total"], "", ""); n > 0 {
		all = append(all, web.Finding{
			Verdict: web.Look, About: "Audit", State: text.Plural(n, "change") + " of this replica not stored in the registry",
			Meaning: "The registry was unavailable for too long. The file of audit_log has these changes.", Do: "Find out why the queue repository could not be written: the log has the error.",
		})
	}
	return all
}

// cacheFindings report how often the caches had an answer: in memory, and archives on disk.
func cacheFindings(m samples) (all []web.Finding) {
	// hits, total
	memory := [2]int{}
	files := [2]int{}
	for _, s := range m["okara_cache_total"] {
		of := &memory
		if labelOf(s, "kind") == "file" {
			of = &files
		}
		if labelOf(s, "result") != "miss" {
			of[0] += int(valueOf(s))
		}
		of[1] += int(valueOf(s))
	}
	for _, c := range []struct {
		about string
		of    [2]int
	}{{"Caches in memory", memory}, {"Archives on disk", files}} {
		if c.of[1] > 0 {
			all = append(all, web.Finding{
				About: c.about, State: fmt.Sprintf("%d of 100 lookups served from the cache, of %d in total", c.of[0]*100/c.of[1], c.of[1]),
				Meaning: "A newly started server uses the registry more often.",
			})
		}
	}
	return all
}

// diskFindings report the disks of the storage and of the cached archives.
func (d *doctor) diskFindings(m samples) (all []web.Finding) {
	if size, free := m["okara_disk_size_bytes"], m["okara_disk_free_bytes"]; len(size) > 0 && len(free) > 0 {
		all = append(all, diskFinding("Storage disk", valueOf(size[0]), valueOf(free[0])))
	}
	if d.blobs != "" {
		if size, free, ok := embedded.Space(d.blobs); ok {
			all = append(all, diskFinding("Archive cache disk", float64(size), float64(free)))
		}
	}
	return all
}

func diskFinding(about string, size, free float64) web.Finding {
	f := web.Finding{About: about, State: text.Size(int64(free)) + " of " + text.Size(int64(size)) + " are free", Meaning: "Enough free space."}
	switch {
	case free*50 < size:
		f.Verdict = web.Act
		f.Meaning = "Once it is full, nothing more can be written there."
		f.Do = "Free space, or move the folder to a larger disk."
	case free*10 < size:
		f.Verdict = web.Look
		f.Meaning = "Less than a tenth is left."
		f.Do = "Free space soon."
	}
	return f
}

// queueFindings report the jobs of webhooks and of pull-through.
func queueFindings(m samples) []web.Finding {
	count := func(state string) int { return sumSamples(m["okara_queue_jobs"], "state", state) }
	f := web.Finding{
		About:   "Queue",
		State:   fmt.Sprintf("%d waiting, %d running; %d done, %d failed, %d parked since the start", count("waiting"), count("running"), count("done"), count("failed"), count("parked")),
		Meaning: "Waiting jobs are retried automatically until they are done.",
	}
	switch {
	case count("parked") > 0:
		f.Verdict = web.Act
		f.Meaning = "A parked job was running each time a process stopped, so it is not retried."
		f.Do = "Check the log for the reason, and request the job again: okara admin doctor artifacts lists the parked jobs."
	case count("failed") > 0:
		f.Verdict = web.Look
		f.Meaning = "A failed job was given up: its version was not published."
		f.Do = "Fix the cause in the error; the log of the server names the job."
	}
	return []web.Finding{f}
}

// lastFailure adds the error of the job that failed last to the finding of the queue.
func lastFailure(all []web.Finding, m *registry.Metrics) []web.Finding {
	if at, why := m.LastFailure(); !at.IsZero() {
		all[0].State += "; last error, of " + at.UTC().Format("2006-01-02 15:04 UTC") + ": " + why
	}
	return all
}

// depotFindings report the runs of the depot file in this process.
func depotFindings(m samples) []web.Finding {
	var succeeded, failed float64
	for _, s := range m["okara_depot_last_run_timestamp_seconds"] {
		if labelOf(s, "result") == "failed" {
			failed = valueOf(s)
		} else {
			succeeded = valueOf(s)
		}
	}
	if succeeded == 0 && failed == 0 {
		return nil // no run has ended here
	}
	at := func(t float64) string {
		if t == 0 {
			return "never since the start"
		}
		return time.Unix(int64(t), 0).UTC().Format("2006-01-02 15:04 UTC")
	}
	f := web.Finding{About: "Depot", State: "last run without a failure: " + at(succeeded), Meaning: "Everything in the depot file has been published."}
	if failed > succeeded {
		f.Verdict = web.Act
		f.State = f.State + "; last one with failures: " + at(failed)
		f.Meaning = fmt.Sprintf("The latest run could not publish everything; %d failures since the start.", sumSamples(m["okara_depot_failures_total"], "", ""))
		f.Do = "okara depot plan shows what is missing, and why."
	}
	return []web.Finding{f}
}

// replicaFindings report the processes that changed something today, by the registry's audit log.
func replicaFindings(v auditlog.View, now time.Time) []web.Finding {
	seen := map[string]bool{}
	for _, e := range v.Entries {
		if e.Time.UTC().Format(time.DateOnly) == now.UTC().Format(time.DateOnly) {
			seen[e.Process] = true
		}
	}
	if v.Read.IsZero() && len(seen) == 0 {
		return nil // the registry did not answer in time
	}
	return []web.Finding{{
		About: "Replicas", State: fmt.Sprintf("%d changed something today", len(seen)),
		Meaning: "Each server process that made changes is counted, so a restarted one counts twice.",
	}}
}
