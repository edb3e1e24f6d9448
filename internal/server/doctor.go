// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/seed-141914ff/okara/internal/auditlog"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/web"
)

// soon is how long before its end a key or a certificate is reported.
const soon = 60 * 24 * time.Hour

// doctor reports this replica's health by its metrics, the state of its parts, and the verdicts on
// state repositories; nothing that is not measured.
type doctor struct {
	metrics     *Metrics
	queue       bool   // this replica works on a queue
	blobs       string // folder of cached archives; "": none are cached
	shared      string // base_path, if users log in to the pages; else ""
	certificate time.Time
	beside      func() []web.Finding // findings of the extension; nil: none
	states      *states.States       // nil: states are not served
	auditLog    *auditlog.Log        // nil: no audit log is kept
}

// newDoctor reads the end of the certificate once: that stays after the start.
func newDoctor(o Options, m *Metrics) *doctor {
	d := &doctor{metrics: m, queue: len(o.GitHub)+len(o.PullThrough) > 0, states: o.States, auditLog: o.auditLog}
	if o.Sessions != nil {
		d.shared = o.BasePath
	}
	if o.Blobs.Bytes > 0 {
		d.blobs = o.Blobs.Dir
	}
	if o.certificate != "" {
		if c, err := tls.LoadX509KeyPair(o.certificate, o.certificateKey); err == nil && c.Leaf != nil { // otherwise the start fails with this error
			d.certificate = c.Leaf.NotAfter
		}
	}
	return d
}

// Findings implements [web.Doctor].
func (d *doctor) Findings(ctx context.Context, now time.Time) []web.Finding {
	m := d.metrics.gatherSamples()
	var all []web.Finding
	all = append(all, registryFindings(m)...)
	if d.states != nil {
		all = append(all, verdictFindings(ctx, d.states)...)
	}
	all = append(all, originFindings(m)...)
	if d.queue {
		all = append(all, lastFailure(queueFindings(m), d.metrics.protocols)...)
	}
	all = append(all, depotFindings(m)...)
	if d.beside != nil {
		all = append(all, d.beside()...)
	}
	all = append(all, rulesFindings(d.metrics)...)
	all = append(all, endFindings(m, d.certificate, now)...)
	if d.shared != "" {
		all = append(all, sharedFinding(d.shared))
	}
	if d.auditLog != nil {
		wait, cancel := context.WithTimeout(ctx, partTime)
		all = append(all, replicaFindings(d.auditLog.View(wait), now)...)
		cancel()
	}
	all = append(all, contentFindings(m)...)
	all = append(all, cacheFindings(m)...)
	return append(all, d.diskFindings(m)...)
}

// partTime is how long the doctor waits for optional parts.
const partTime = 2 * time.Second

// sharedFinding reports that the pages share their host with other applications.
func sharedFinding(path string) web.Finding {
	return web.Finding{
		Verdict: web.Look, About: "Host of the pages", State: "shared with others: base_path is " + path,
		Meaning: "To a browser, everything on this host is the same origin and can act as the logged-in user.", Do: "Give okara a separate host, unless you trust everything that this host serves.",
	}
}
