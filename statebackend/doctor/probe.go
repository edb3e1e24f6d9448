// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// Options name the repository to examine and how to reach it.
type Options struct {
	Repository string // HOST[:PORT]/PATH
	// Peer is another HOST[:PORT] of the registry for the second connection; "": the same host.
	Peer   string
	Rounds int  // of the litmus test; 0 means 200
	Record bool // store the verdict in the repository, where locks look for it
	// Open opens a repository over its own connection, through wrap. Its errors stay unchanged.
	Open func(reference string, wrap func(http.RoundTripper) http.RoundTripper) (*oci.Repo, error)
	Tool string                           // the examining program, for the verdict
	Note func(format string, args ...any) // receives a line before each slow step; may be nil
}

// defaultRounds take a few seconds.
const defaultRounds = 200

// Finding is one line of the report.
type Finding struct {
	Check   string `json:"check"`
	Seen    string `json:"seen"`
	Follows string `json:"follows"`
	OK      bool   `json:"ok"` // false: something that works on other registries does not work here
}

// Report is the result of an examination.
type Report struct {
	Repository string         `json:"repository"`
	Peer       string         `json:"peer,omitempty"`
	Findings   []Finding      `json:"findings"`
	Verdict    format.Verdict `json:"verdict"`
}

// Examine runs all checks. An error means that the registry could not be examined.
func Examine(ctx context.Context, o Options) (Report, error) {
	d, err := newExamination(o)
	if err != nil {
		return Report{}, err
	}
	if err := d.run(ctx); err != nil {
		return d.report, err
	}
	if o.Record {
		err = statebackend.New(d.repo, statebackend.Options{}).Verdicts().Record(ctx, d.report.Verdict)
	}
	return d.report, err
}

// examination tests one repository. Its scratch tags all start with prefix.
type examination struct {
	o      Options
	repo   *oci.Repo // the first connection
	other  *oci.Repo // the second one, perhaps to another host
	watch  *watcher  // between repo and the network
	prefix string
	count  int // scratch manifests made so far
	report Report
}

// ProbePrefix is that of the tags by which a registry is tried out.
const ProbePrefix = "okara-probe-"

const artifactProbe = "application/vnd.okara.probe.v1"

// IsProbe reports whether a manifest was made to try a registry out. It has no content.
func IsProbe(m oci.Manifest) bool {
	image, err := m.Image()
	return err == nil && image.ArtifactType == artifactProbe
}

func newExamination(o Options) (*examination, error) {
	o.Rounds = cmp.Or(o.Rounds, defaultRounds)
	if o.Note == nil {
		o.Note = func(string, ...any) {}
	}
	d := &examination{o: o, prefix: ProbePrefix + uuid.NewString()[:8] + "-", report: Report{Repository: o.Repository, Peer: o.Peer}}
	second := o.Repository
	if o.Peer != "" {
		_, path, _ := strings.Cut(o.Repository, "/")
		second = o.Peer + "/" + path
	}
	var err error
	if d.repo, d.watch, err = d.connect(o.Repository); err != nil {
		return nil, err
	}
	d.other, _, err = d.connect(second)
	return d, err
}

func (d *examination) connect(reference string) (*oci.Repo, *watcher, error) {
	w := &watcher{}
	r, err := d.o.Open(reference, func(base http.RoundTripper) http.RoundTripper { w.base = base; return w })
	return r, w, err
}

// watcher keeps the header of the last response, and can request a PUT that only creates.
type watcher struct {
	base http.RoundTripper

	mu         sync.Mutex // guards the fields below
	last       http.Header
	createOnly bool
}

func (w *watcher) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	only := w.createOnly
	w.mu.Unlock()
	if only && r.Method == http.MethodPut {
		r = r.Clone(r.Context())
		r.Header.Set("If-None-Match", "*")
	}
	resp, err := w.base.RoundTrip(r)
	if err == nil {
		w.mu.Lock()
		w.last = resp.Header
		w.mu.Unlock()
	}
	return resp, err
}

func (w *watcher) lastHeader(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last.Get(name)
}

func (w *watcher) onlyCreate(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.createOnly = on
}

func (d *examination) addFinding(ok bool, check, seen, follows string) {
	d.report.Findings = append(d.report.Findings, Finding{Check: check, Seen: seen, Follows: follows, OK: ok})
}

func (d *examination) run(ctx context.Context) error {
	v := &d.report.Verdict
	v.Host = d.repo.Host()
	v.Checked = time.Now().UTC().Truncate(time.Second)
	v.Tool = d.o.Tool
	for _, check := range []func(context.Context, *format.Verdict) error{
		d.checkPush, d.checkMove, d.checkList, d.checkCreateOnly, d.checkReferrers, d.checkDelete, d.checkLitmus,
	} {
		if err := check(ctx, v); err != nil {
			return fmt.Errorf("examining %s: %w", d.repo, err)
		}
	}
	d.drawVerdict(v)
	return nil
}

// scratch returns a unique manifest, and a tag for it.
func (d *examination) scratch(name string, subject *oci.Descriptor) (string, oci.Manifest, error) {
	d.count++
	tag := d.prefix + name
	m, err := oci.NewManifest(ocispec.Manifest{
		ArtifactType: artifactProbe,
		Config:       artifact.EmptyConfig(),
		Layers:       []oci.Descriptor{artifact.EmptyConfig()},
		Subject:      subject,
		Annotations:  map[string]string{"vnd.okara.probe": tag + " " + strconv.Itoa(d.count)},
	})
	return tag, m, err
}

func (d *examination) push(ctx context.Context, r *oci.Repo, name string) (string, oci.Manifest, error) {
	tag, m, err := d.scratch(name, nil)
	if err != nil {
		return tag, m, err
	}
	return tag, m, r.PutTag(ctx, tag, m)
}

func (d *examination) checkPush(ctx context.Context, _ *format.Verdict) error {
	for _, r := range []*oci.Repo{d.repo, d.other} {
		if _, err := r.EnsureBlob(ctx, oci.EmptyBlob()); err != nil {
			return err
		}
	}
	tag, m, err := d.push(ctx, d.repo, "push")
	if err != nil {
		return err
	}
	back, err := d.repo.Fetch(ctx, tag)
	if err != nil {
		return err
	}
	same := back.Digest == m.Digest
	d.addFinding(same, "push and pull", yesNo(same), ternary(same, "states can be stored", "the registry changes manifests, nothing can be stored safely"))
	if !same {
		return fmt.Errorf("the manifest %s was returned as %s: %w", m.Digest, back.Digest, oci.ErrCorrupt)
	}
	return d.removeScratch(ctx, tag, m)
}

// checkMove pushes a tag twice, in the form of a current state's, because registries have rules for
// names; 412 and 403 mean that it cannot move.
func (d *examination) checkMove(ctx context.Context, v *format.Verdict) error {
	const tag = "state-" + format.ProbeFragment
	_, first, err := d.scratch("move", nil)
	if err != nil {
		return err
	}
	_, second, err := d.scratch("move", nil)
	if err != nil {
		return err
	}
	if err = d.repo.PutTag(ctx, tag, first); err == nil { // otherwise the tag is left from an earlier run
		err = d.repo.PutTag(ctx, tag, second)
	}
	if err != nil && !keepsTag(err) {
		return err
	}
	now, rerr := d.repo.Resolve(ctx, tag)
	if errors.Is(rerr, oci.ErrNotFound) && err != nil {
		return err // the account may not push that tag at all
	}
	if rerr != nil {
		return rerr
	}
	v.Pointer = format.PointerStuck
	if now.Digest == second.Digest {
		v.Pointer = format.PointerMoves
	}
	moves := v.Pointer == format.PointerMoves
	d.addFinding(moves, "move a tag", yesNo(moves), ternary(moves, "state-W follows the newest version",
		"okara lists the versions before it reads; other tools always read the first state, unless the rule exempts state-*, locked-* and unlocked-* (not state-*-v*)"))
	if err := d.removeDigest(ctx, first); err != nil {
		return err
	}
	return d.removeScratch(ctx, tag, second)
}

func keepsTag(err error) bool {
	return errors.Is(err, oci.ErrExists) || errors.Is(err, oci.ErrDenied) || errors.Is(err, oci.ErrUnsupported)
}

// checkList reads the tag list after an acknowledged push.
func (d *examination) checkList(ctx context.Context, _ *format.Verdict) error {
	var tags []string
	for i := range 3 {
		tag, m, err := d.push(ctx, d.repo, "list-"+strconv.Itoa(i))
		if err != nil {
			return err
		}
		defer func() { _ = d.removeScratch(ctx, tag, m) }() // a scratch tag that stays does no harm
		tags = append(tags, tag)
	}
	l, err := d.repo.Snapshot(ctx)
	if err != nil {
		return err
	}
	own := !slices.ContainsFunc(tags, func(t string) bool { return !slices.Contains(l.Tags, t) })
	d.addFinding(own, "own pushes in the tag list", yesNo(own), ternary(own, "a lock sees its own claim at once", "locks wait until the list follows, at most 10 s"))
	d.addFinding(true, "length of the tag list", fmt.Sprintf("%s, %s", text.Plural(len(l.Tags), "tag"), text.Plural(l.Pages, "page")), "each lock reads it two or three times")
	d.addFinding(true, "order of the tag list", ternary(slices.IsSorted(l.Tags), "sorted", "not sorted"), "none, locks do not depend on it")
	d.addFinding(!l.Cached, "cache before the registry", yesNo(l.Cached), ternary(l.Cached, "locking is refused, lists may be old", "lists are the registry's own"))
	if l.Cached {
		d.report.Verdict.Reason = "a cache answers for the tag list"
	}
	d.addFinding(!l.Date.IsZero(), "Date header", yesNo(!l.Date.IsZero()), ternary(l.Date.IsZero(), "lock_ttl cannot be used", "lock_ttl can be used"))
	return nil
}

// checkCreateOnly requests a PUT that must fail because the tag exists. Locks never rely on it: one
// refusal does not prove that two concurrent ones are distinguished.
func (d *examination) checkCreateOnly(ctx context.Context, v *format.Verdict) error {
	tag, m, err := d.push(ctx, d.repo, "create")
	if err != nil {
		return err
	}
	_, second, err := d.scratch("create", nil)
	if err != nil {
		return err
	}
	d.watch.onlyCreate(true)
	err = d.repo.PutTag(ctx, tag, second)
	d.watch.onlyCreate(false)
	seen := "honoured"
	switch {
	case keepsTag(err) && v.Pointer == format.PointerStuck:
		seen = "unknown, since every PUT of an existing tag is refused"
	case err == nil:
		seen = "ignored"
	case errors.Is(err, oci.ErrExists):
		v.CreateOnly = true
	default:
		seen = "refused"
	}
	d.addFinding(true, "create-only PUT (If-None-Match)", seen, "none, locks do not rely on it")
	if err := d.removeScratch(ctx, tag, second); err != nil {
		return err
	}
	return d.removeDigest(ctx, m)
}

func (d *examination) checkReferrers(ctx context.Context, v *format.Verdict) error {
	tag, subject, err := d.push(ctx, d.repo, "subject")
	if err != nil {
		return err
	}
	_, m, err := d.scratch("referrer", &subject.Descriptor)
	if err != nil {
		return err
	}
	if err := d.repo.PutManifest(ctx, m); err != nil {
		d.addFinding(false, "referrers", "refused", "signatures are stored under fallback tags")
		return d.removeScratch(ctx, tag, subject)
	}
	v.ReferrersAPI = d.watch.lastHeader("OCI-Subject") != ""
	d.addFinding(v.ReferrersAPI, "referrers API", yesNo(v.ReferrersAPI),
		ternary(v.ReferrersAPI, "signatures and reports are found by the API", "okara keeps a fallback tag for them"))
	if err := d.removeDigest(ctx, m); err != nil {
		return err
	}
	return d.removeScratch(ctx, tag, subject)
}

// checkDelete finds out how a lock can be released and versions pruned.
func (d *examination) checkDelete(ctx context.Context, v *format.Verdict) error {
	tag, m, err := d.push(ctx, d.repo, "delete-tag")
	if err != nil {
		return err
	}
	if v.DeleteTag, err = canDelete(d.repo.Untag(ctx, tag)); err != nil {
		return err
	}
	tag, second, err := d.push(ctx, d.repo, "delete-digest")
	if err != nil {
		return err
	}
	if v.DeleteDigest, err = canDelete(d.repo.Delete(ctx, second.Descriptor)); err != nil {
		return err
	}
	if v.DeleteDigest {
		l, err := d.repo.Snapshot(ctx)
		if err != nil && !errors.Is(err, oci.ErrNotFound) {
			return err
		}
		v.DigestDropsTags = !slices.Contains(l.Tags, tag)
	}
	if _, err := canDelete(d.repo.Untag(ctx, tag)); err != nil {
		return err
	}
	d.addFinding(v.DeleteTag, "delete a tag", yesNo(v.DeleteTag), pruneFollows(*v))
	d.addFinding(v.DeleteDigest, "delete a manifest", yesNo(v.DeleteDigest), releaseFollows(*v))
	return d.removeScratch(ctx, "", m)
}

func pruneFollows(v format.Verdict) string {
	switch {
	case v.DeleteTag:
		return "old versions can be pruned one by one"
	case v.DeleteDigest:
		return "old versions are pruned by their manifests"
	}
	return "old versions cannot be pruned"
}

func releaseFollows(v format.Verdict) string {
	switch {
	case v.DigestDropsTags:
		return "a lock is released by one request"
	case v.DeleteTag:
		return "a lock is released by two requests"
	case v.DeleteDigest:
		return "tags of deleted manifests stay listed, locks leave tombstones"
	}
	return "each lock leaves two tags; a fresh replica resets the list"
}

// canDelete distinguishes a refusal to delete from a failure. Missing counts as deleted.
func canDelete(err error) (bool, error) {
	switch {
	case err == nil, errors.Is(err, oci.ErrNotFound):
		return true, nil
	case errors.Is(err, oci.ErrUnsupported), errors.Is(err, oci.ErrDenied):
		return false, nil
	}
	return false, err
}

func (d *examination) removeScratch(ctx context.Context, tag string, m oci.Manifest) error {
	if err := d.removeDigest(ctx, m); err != nil || tag == "" {
		return err
	}
	_, err := canDelete(d.repo.Untag(ctx, tag))
	return err
}

func (d *examination) removeDigest(ctx context.Context, m oci.Manifest) error {
	_, err := canDelete(d.repo.Delete(ctx, m.Descriptor))
	return err
}

// drawVerdict concludes. What is known of a service by name outweighs tests, which can only refute.
func (d *examination) drawVerdict(v *format.Verdict) {
	known := statebackend.HostVerdict(d.repo.Host())
	replicated := strings.HasSuffix(d.repo.Host(), ".azurecr.io") && d.report.Peer != ""
	switch {
	case v.Reason != "": // refuted by a check
		v.Locking = statebackend.LockingRefused
	case v.Conflicts > 0:
		v.Locking = statebackend.LockingRefused
		v.Reason = fmt.Sprintf("in %d of %d rounds two writers did not see each other", v.Conflicts, v.Rounds)
	case known.Locking == statebackend.LockingRefused && !replicated:
		v.Locking = statebackend.LockingRefused
		v.Reason = known.Reason
	case known.Locking == statebackend.LockingSettle || replicated || v.Stale > 0:
		v.Locking = statebackend.LockingSettle
		v.Reason = fmt.Sprintf("no conflict in %d rounds, but the tag list of this service is not known to be exact", v.Rounds)
	default:
		v.Locking = statebackend.LockingExact
		v.Reason = fmt.Sprintf("the tag list showed every finished push in %d rounds", v.Rounds)
	}
}

func yesNo(b bool) string { return ternary(b, "yes", "no") }

func ternary(b bool, yes, no string) string {
	if b {
		return yes
	}
	return no
}
