// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"context"
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// later is a registry whose clock is ahead.
type later struct {
	http.RoundTripper
	by time.Duration
}

func (l later) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Header.Set("Date", time.Now().Add(l.by).UTC().Format(http.TimeFormat))
	}
	return resp, err
}

// TestAHeldRequest holds a publisher's request while others act, then removes the tag without
// okara: a number names what it named, or nothing. p1 is for Linux, p2 also Darwin, p3 also
// Windows, x another package for that. "+" must succeed, "!" fail.
func TestAHeldRequest(t *testing.T) {
	key, made := mustKey(t), time.Now()
	platforms := []string{"linux_amd64", "darwin_arm64", "windows_amd64"}
	for name, tt := range map[string]struct {
		ahead                time.Duration // the clock of the registry
		before               string
		hold, slow           string // request, and whose
		meanwhile, afterward string
	}{
		"a growth after a removal":                      {before: "p1+ remove+ undo+ wait p2+ untag p2x! p1! p2+"},
		"a withdrawal beside an undo":                   {before: "p1+", hold: "DELETE 1.2.3", slow: "remove", meanwhile: "undo+ p2!", afterward: "undo+ p2!"},
		"two withdrawals beside an undo":                {before: "p1+", hold: "DELETE 1.2.3", slow: "remove", meanwhile: "remove+ undo+ p2!", afterward: "undo+ wait p2+ untag p2x!"},
		"a withdrawal that is late":                     {before: "p1+", hold: "GET list", slow: "remove", meanwhile: "undo wait p2+", afterward: "p2x!"},
		"an identical publisher":                        {hold: "PUT 1.2.3", slow: "p1", meanwhile: "p1+ p2!", afterward: "p2+ untag p2x!"},
		"an identical publisher and a prune":            {hold: "PUT 1.2.3", slow: "p1", meanwhile: "p1+ prune+ p2!", afterward: "wait prune+ p2+ untag p2x!"},
		"an identical undo":                             {before: "p1+ remove+", hold: "PUT 1.2.3", slow: "undo", meanwhile: "undo+ wait p2", afterward: "p2+ untag p2x!"},
		"two growths":                                   {before: "p1+", hold: "PUT okara-time-", slow: "p2+", meanwhile: "p3+", afterward: "untag p3x! p3+"},
		"a clock ahead":                                 {ahead: 15 * time.Minute, hold: "PUT 1.2.3", slow: "p2+", meanwhile: "p2x!", afterward: "p2+"},
		"a growth by a clock ahead":                     {ahead: 15 * time.Minute, before: "p1+", hold: "PUT 1.2.3", slow: "p2+", meanwhile: "p2x!", afterward: "p2+ untag p2x!"},
		"a clock behind":                                {ahead: -26 * time.Hour, before: "p1+ remove+ undo+ wait p2+ remove+ p2x! p2!"},
		"a first version by a clock behind":             {ahead: -2 * time.Hour, before: "p1+ untag p1x!"},
		"a growth beside a dead one":                    {before: "p1+", hold: "PUT 1.2.3", slow: "p2", meanwhile: "p2x! wait", afterward: "p2+ untag p2x!"},
		"what was removed and taken back without a tag": {before: "p1+ remove+ undo+ untag undo+ p2! wait p2+"},
	} {
		t.Run(name, func(t *testing.T) {
			withoutWaits(t, ocitest.Handler(t, ocitest.Quirks{}), func(t *testing.T, registry http.RoundTripper) {
				ctx := t.Context()
				if tt.ahead != 0 {
					registry = later{registry, tt.ahead}
				}
				d, client := newDepot(t, oci.Options{Transport: registry})
				repo := depottest.MustRepo(t, client, depottest.ProviderRepo)
				named := map[string]string{}
				step := func(d *depot.Depot, name string) (err error) {
					name = strings.TrimRight(name, "+!")
					switch name {
					case "wait":
						passTime(11 * time.Minute)
					case "untag":
						err = repo.Untag(ctx, "1.2.3")
					case "prune":
						err = depot.PruneVersions(ctx, mustVersions(t, d, depottest.DNS().Item()), nil)
					case "remove", "undo":
						action := map[string]string{"remove": evidence.ActionYank, "undo": evidence.ActionUnyank}[name]
						_, _, err = d.Announce(ctx, depottest.DNS().Item(), depot.Announcement{Action: action, Version: "1.2.3", DeleteTag: true})
					default:
						n := int(name[1] - '0')
						dist := depottest.NewDist(t, platforms[:n]...)
						if strings.HasSuffix(name, "x") {
							dist[depottest.Stem+platforms[n-1]+".zip"].Data = depottest.NewZip(t, depottest.File("terraform-provider-dns", "other", 0o755))
						}
						_, err = d.PublishProvider(ctx, dist, depottest.DNS(), depottest.MustVersion(t, "1.2.3"), depot.ProviderOptions{SignKey: key, Extend: true, Now: made})
					}
					return err
				}
				do := func(steps string) {
					for name := range strings.FieldsSeq(steps) {
						err := step(d, name)
						if strings.HasSuffix(name, "+") && err != nil || strings.HasSuffix(name, "!") && !errors.Is(err, oci.ErrExists) {
							t.Errorf("%s: %v", name, err)
						}
						for part, zh := range readParts(ctx, repo) {
							if before := named[part]; before != "" && before != zh {
								t.Errorf("after %s %s names other content", name, part)
							}
							named[part] = zh
						}
					}
				}
				do(tt.before)
				if tt.slow == "" {
					return
				}
				method, last, _ := strings.Cut(tt.hold, " ")
				held := &ocitest.Fault{Base: registry, Match: func(r *http.Request) bool {
					return r.Method == method && strings.HasPrefix(path.Base(r.URL.Path), last)
				}, Do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
					do(tt.meanwhile)
					return next.RoundTrip(r)
				}}
				if last == "list" {
					held.Nth = 2
				}
				slow, _ := newDepot(t, oci.Options{Transport: held, Retry: oci.Retry{MaxAttempts: 1}})
				if err := step(slow, tt.slow); strings.HasSuffix(tt.slow, "+") && err != nil || held.Seen() == 0 {
					t.Errorf("%s: %v", tt.slow, err)
				}
				do(tt.afterward)
			})
		})
	}
}

func readParts(ctx context.Context, r *oci.Repo) map[string]string {
	parts := map[string]string{}
	if m, err := r.Fetch(ctx, "1.2.3"); err == nil {
		index, _ := artifact.ParseProviderIndex(m)
		for _, p := range index.Platforms {
			parts[p.Platform.String()] = p.Zh
		}
	}
	return parts
}

// TestAnEditionIsNoRecord: editions published by name say nothing of the number; moves do.
func TestAnEditionIsNoRecord(t *testing.T) {
	for name, tt := range map[string]struct{ steps, refused, accepted string }{
		"a name":       {"a 1.2.3; c 1.2.3-eaaaaaaaaaaaa", "b", "a"},
		"moved":        {"a 1.2.3; c 1.2.3-eaaaaaaaaaaaa; b 1.2.3 editions", "a", "b"},
		"two editions": {"a 1.2.3 editions; b 1.2.3 editions", "c", "b"},
		"pruned":       {"a 1.2.3 editions; prune", "b", "a"},
		"moved back":   {"a 1.2.3 editions; b 1.2.3 editions; untag; a 1.2.3 editions", "b", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			withoutWaits(t, ocitest.Handler(t, ocitest.Quirks{}), func(t *testing.T, registry http.RoundTripper) {
				d, client := newDepot(t, oci.Options{Transport: registry})
				publish := func(text, version, policy string) error {
					_, err := d.PublishModule(t.Context(), depottest.NewModule("# "+text), depottest.MustModule(t, "net/vpc/aws", version), depot.ModuleOptions{Policy: must.Get(depot.ParsePolicy(policy))(t)})
					return err
				}
				for s := range strings.SplitSeq(tt.steps, "; ") {
					switch words := append(strings.Fields(s), ""); s {
					case "untag":
						must.Succeed(t, depottest.MustRepo(t, client, depottest.ModuleRepo).Untag(t.Context(), "1.2.3"))
					case "prune": // the edition, by a program that keeps the number
						l := mustVersions(t, d, depottest.VPC().Item())
						must.Succeed(t, depot.PruneVersions(t.Context(), l, slices.DeleteFunc(slices.Clone(l.Versions), func(v addr.Version) bool { return !v.Edition() })))
					default:
						must.Succeed(t, publish(words[0], words[1], words[2]))
					}
					passTime(time.Second)
				}
				must.Succeed(t, depottest.MustRepo(t, client, depottest.ModuleRepo).Untag(t.Context(), "1.2.3"))
				if err := publish(tt.refused, "1.2.3", ""); !errors.Is(err, oci.ErrExists) {
					t.Errorf("%s: %v", tt.refused, err)
				}
				must.Succeed(t, publish(tt.accepted, "1.2.3", ""))
				if next := must.Get(must.Get(depot.ReadListing(t.Context(), depottest.MustRepo(t, client, depottest.ModuleRepo), addr.KindModule, nil))(t).Next(addr.Patch))(t); next.String() != "1.2.4" {
					t.Errorf("next: %s", next)
				}
			})
		})
	}
}

// TestUndoAfterAMove: a withdrawal beside a move of the number says what it named before; taken
// back, it names what it moved to.
func TestUndoAfterAMove(t *testing.T) {
	withoutWaits(t, ocitest.Handler(t, ocitest.Quirks{}), func(t *testing.T, registry http.RoundTripper) {
		ctx := t.Context()
		d, client := newDepot(t, oci.Options{Transport: registry})
		repo := depottest.MustRepo(t, client, depottest.ModuleRepo)
		editions := depot.ModuleOptions{Policy: must.Get(depot.ParsePolicy("editions"))(t)}
		publish := func(d *depot.Depot, text string) error {
			_, err := d.PublishModule(ctx, depottest.NewModule("# "+text), depottest.MustModule(t, "net/vpc/aws", "1.2.3"), editions)
			passTime(time.Second)
			return err
		}
		announce := func(action string, deleteTag bool) {
			must.GetBoth(d.Announce(ctx, depottest.VPC().Item(), depot.Announcement{Action: action, Version: "1.2.3", DeleteTag: deleteTag}))(t)
			passTime(time.Second)
		}
		must.Succeed(t, publish(d, "b"))
		held := &ocitest.Fault{Base: registry, Match: func(r *http.Request) bool {
			return r.Method == http.MethodPut && path.Base(r.URL.Path) == "1.2.3"
		}, Do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			announce(evidence.ActionYank, true)
			return next.RoundTrip(r)
		}}
		slow, _ := newDepot(t, oci.Options{Transport: held, Retry: oci.Retry{MaxAttempts: 1}})
		must.Succeed(t, publish(slow, "a"))
		named := must.Get(repo.Resolve(ctx, "1.2.3"))(t)
		must.Succeed(t, repo.Untag(ctx, "1.2.3")) // by a policy of the registry
		announce(evidence.ActionUnyank, false)
		if now := must.Get(repo.Resolve(ctx, "1.2.3"))(t); now.Digest != named.Digest {
			t.Errorf("named %s, names %s", named.Digest, now.Digest)
		}
	})
}
