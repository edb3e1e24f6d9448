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

// soon is how long before its end a key or a certificate is worth a line.
const soon = 60 * 24 * time.Hour

// doctor says how this replica is, from its metrics, what its parts know of
// themselves, and what is kept in repositories of states. What is not measured is no
// line.
type doctor struct {
	metrics     *Metrics
	queue       bool   // there is work that it does
	blobs       string // folder of archives; "": none are kept
	shared      string // base_path, where people log in to pages below it; "": there is none
	certificate time.Time
	beside      func() []web.Finding // of the extension; nil: it says nothing
	states      *states.States       // nil: there are none
	auditLog    *auditlog.Log        // of changes; nil: none is kept
}

// newDoctor reads when the certificate ends once, since it is served as it was at
// the start.
func newDoctor(o Options, m *Metrics) *doctor {
	d := &doctor{metrics: m, queue: len(o.GitHub)+len(o.PullThrough) > 0, states: o.States, auditLog: o.auditLog}
	if o.Sessions != nil {
		d.shared = o.BasePath
	}
	if o.Blobs.Bytes > 0 {
		d.blobs = o.Blobs.Dir
	}
	if o.certificate != "" {
		if c, err := tls.LoadX509KeyPair(o.certificate, o.certificateKey); err == nil && c.Leaf != nil { // else the start fails, and says why
			d.certificate = c.Leaf.NotAfter
		}
	}
	return d
}

// Findings is that of [web.Doctor].
func (d *doctor) Findings(ctx context.Context, now time.Time) []web.Finding {
	m := d.metrics.samples()
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

// partTime is how long the doctor waits for what it does without.
const partTime = 2 * time.Second

// sharedFinding is that the pages share their host with other applications.
func sharedFinding(path string) web.Finding {
	return web.Finding{
		Verdict: web.Look, About: "Host of the pages", State: "shared with others: base_path is " + path,
		Meaning: "For a browser whatever else this host serves is the same origin, and can act as who is logged in.", Do: "Give okara a host of its own, unless you trust all that this one serves.",
	}
}
