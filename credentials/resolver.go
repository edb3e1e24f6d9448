// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/seed-141914ff/okara/oci"
)

// DefaultHelperTimeout is how long a credential helper may take to answer.
const DefaultHelperTimeout = 30 * time.Second

const (
	// expiryMargin is how long before its expiry a credential is no longer used.
	expiryMargin = time.Minute
	// minHelperAge keeps a helper from being asked again and again: it has nothing newer than that.
	minHelperAge = 10 * time.Second
	// refusedAge is how long a credential that a registry refused is skipped.
	refusedAge = 10 * time.Minute
)

// Setting is a credential that the user gave to okara itself.
type Setting struct {
	Origin     string // where it was given, for messages
	Prefix     string // HOST[/PATH] that it applies to; "": every registry
	Credential oci.Credential
	Helper     string // name of a credential helper to ask instead
}

// Options configures a Resolver. The zero value reads the real environment.
type Options struct {
	Explicit      []Setting
	Getenv        func(string) string // nil: os.Getenv
	Home          string              // "": from the environment; if there is none, files in it are not read
	GOOS          string              // "": runtime.GOOS
	HelperTimeout time.Duration       // 0: DefaultHelperTimeout; also of Identity
	Identity      Identity            // for registries of clouds, if nothing else is configured; nil: none
	Logger        *slog.Logger        // warns of skipped sources; nil: no log
	Now           func() time.Time    // nil: time.Now
}

// Resolver finds credentials. Files are read once and helpers are asked once for each registry,
// until a credential expires or is rejected. It is safe for concurrent use.
type Resolver struct {
	o         Options
	locations locations
	flight    singleflight.Group // one helper call at a time per helper and host

	mu      sync.Mutex // guards the fields below
	sources []source   // nil: not loaded
	ambient bool
	warned  map[string]bool
	answers map[question]answer
	spent   map[string]bool // access tokens that a registry refused
	refused map[refusal]time.Time
}

// refusal identifies a credential that a registry does not know.
type refusal struct {
	host string
	cred oci.Credential
}

// question is for a helper; "": for the workload's identity.
type question struct{ helper, host string }

// answer is the answer: a credential, errNoEntry or a failure.
type answer struct {
	cred    oci.Credential
	err     error
	at      time.Time
	expires time.Time // zero: unknown
}

// New returns a Resolver. It reads nothing before the first request.
func New(o Options) *Resolver {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	o.GOOS = cmp.Or(o.GOOS, runtime.GOOS)
	if o.Home == "" {
		o.Home = o.Getenv(cmp.Or(map[string]string{"windows": "USERPROFILE"}[o.GOOS], "HOME"))
	}
	o.HelperTimeout = cmp.Or(o.HelperTimeout, DefaultHelperTimeout)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Resolver{
		o:         o,
		locations: locations{getenv: o.Getenv, home: o.Home, goos: o.GOOS},
		warned:    map[string]bool{},
		answers:   map[question]answer{},
		spent:     map[string]bool{},
		refused:   map[refusal]time.Time{},
	}
}

// Credential returns the credential for a repository, or zero if no source has one. It is an
// oci.CredentialFunc. An error means that ctx ended: broken sources are logged and skipped.
func (r *Resolver) Credential(ctx context.Context, host, repository string) (oci.Credential, error) {
	found, err := r.resolve(ctx, newTarget(host, repository))
	if err != nil {
		return oci.Credential{}, err
	}
	if i := slices.IndexFunc(found, func(f finding) bool { return f.chosen }); i >= 0 {
		return found[i].cred, nil
	}
	return oci.Credential{}, nil
}

// ServiceToken returns the token that tofu and terraform send to services of a host, of a
// TF_TOKEN_... variable or else a credentials block; "" if there is none.
func (r *Resolver) ServiceToken(host string) string {
	host = normalHost(host)
	for _, s := range r.sourcesFor(host) {
		r.warn(s.location, s.err)
		for _, e := range s.entries {
			if e.token != "" && e.key.host == host {
				return e.token
			}
		}
	}
	return ""
}

// Rejected reports that a registry or its token service refused c: helpers are asked again, files
// are read again, and an access token is replaced by its refresh token, if any. unknown: the
// registry does not know c, which is skipped for a while in favour of the next source, unless it
// was given to okara itself, when no other identity is intended.
func (r *Resolver) Rejected(host, _ string, c oci.Credential, unknown bool) {
	host = normalHost(host)
	now := r.o.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sources = nil
	if c.RegistryToken != "" && c.IdentityToken != "" {
		r.spent[c.RegistryToken] = true
	} else if unknown {
		r.refused[refusal{host, c}] = now
	}
	for q, a := range r.answers {
		if q.host == host && a.err == nil && a.cred == c && now.Sub(a.at) >= minHelperAge {
			delete(r.answers, q)
		}
	}
}

// finding is an entry with its match for a repository, or a source that is empty or broken.
type finding struct {
	source source
	bare   bool // the source as a whole
	entry  entry
	match  match
	cred   oci.Credential
	chosen bool
	err    error
}

// resolve returns all entries in order of rank, at most one chosen. No helper is asked after it.
func (r *Resolver) resolve(ctx context.Context, t key) ([]finding, error) {
	var found []finding
	for _, s := range r.sourcesFor(t.host) {
		r.warn(s.location, s.err)
		if len(s.entries) == 0 || s.err != nil {
			found = append(found, finding{source: s, bare: true, err: s.err})
		}
		for _, e := range s.entries {
			m := e.key.matchTarget(t)
			if e.weak && m > matchDefault {
				m = matchDefault
			}
			found = append(found, finding{source: s, entry: e, match: m, cred: e.cred})
		}
	}
	slices.SortStableFunc(found, func(a, b finding) int {
		return cmp.Or(-cmp.Compare(a.match, b.match), cmp.Compare(a.source.class, b.source.class))
	})
	first := -1 // index of the first refused one
	for i := range found {
		f := &found[i]
		if f.match == matchNone {
			break // the rest does not match either
		}
		if f.entry.helper != "" || f.entry.ident {
			if err := r.askFor(ctx, f, t.host); err != nil {
				return nil, err
			}
			if f.err != nil {
				continue
			}
		}
		f.cred = r.withoutSpent(f.cred)
		if f.source.class != classExplicit && r.wasRefused(t.host, f.cred) {
			f.err = errRefused
			if first < 0 {
				first = i
			}
			continue
		}
		f.chosen = true
		if first >= 0 { // a different identity sees different content, so warn
			r.warn(found[first].source.location, fmt.Errorf("%s rejected it; using the credentials from %s", t.host, f.source.location))
		}
		return found, nil
	}
	if first >= 0 {
		found[first].chosen = true // there is no better one
	}
	return found, nil
}

// errRefused marks a credential that its registry does not know.
var errRefused = errors.New("the registry refused it")

func (r *Resolver) wasRefused(host string, c oci.Credential) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.refused[refusal{host, c}]
	return ok && r.o.Now().Sub(at) < refusedAge
}

// sourcesFor returns the sources for one host in order of class.
func (r *Resolver) sourcesFor(host string) []source {
	r.mu.Lock()
	if r.sources == nil {
		r.sources, r.ambient = r.loadSources()
	}
	list := slices.Clone(r.sources)
	ambient := r.ambient
	r.mu.Unlock()
	list = append([]source{tokenVariables(r.o.Getenv, host)}, list...)
	if ambient {
		list = append(append(list, r.cloudSource(host)), r.identitySources(host)...)
	}
	slices.SortStableFunc(list, func(a, b source) int { return cmp.Compare(a.class, b.class) })
	return list
}

// askFor fills in the answer of a helper. The error is always that of ctx.
func (r *Resolver) askFor(ctx context.Context, f *finding, host string) error {
	a, err := r.askHelper(ctx, question{helper: f.entry.helper, host: host})
	if err != nil {
		return err
	}
	f.cred = a.cred
	f.err = a.err
	if a.err != nil && !errors.Is(a.err, errNoEntry) {
		r.warn(f.source.location, a.err)
	}
	return nil
}

// askHelper returns the cached answer of a helper, or asks it. That call ends by its own timeout,
// not with ctx: others may wait for the same answer.
func (r *Resolver) askHelper(ctx context.Context, q question) (answer, error) {
	r.mu.Lock()
	a, ok := r.answers[q]
	r.mu.Unlock()
	if ok && (a.expires.IsZero() || r.o.Now().Before(a.expires.Add(-expiryMargin))) {
		return a, nil
	}
	detached := context.WithoutCancel(ctx)
	ch := r.flight.DoChan(q.helper+" "+q.host, func() (any, error) {
		var a answer
		if q.helper == "" {
			a = r.askIdentity(detached, q.host)
		} else {
			a.cred, a.err = r.program(q.helper).getCredential(detached, q.host)
			a.expires = readExpiry(a.cred)
		}
		a.at = r.o.Now()
		r.mu.Lock()
		r.answers[q] = a
		r.mu.Unlock()
		return a, nil
	})
	select {
	case <-ctx.Done():
		return answer{}, ctx.Err()
	case res := <-ch:
		a, _ := res.Val.(answer)
		return a, res.Err
	}
}

func (r *Resolver) program(name string) helperProgram {
	return helperProgram{name: name, path: r.o.Getenv("PATH"), goos: r.o.GOOS, timeout: r.o.HelperTimeout}
}

func (r *Resolver) withoutSpent(c oci.Credential) oci.Credential {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spent[c.RegistryToken] {
		c.RegistryToken = ""
	}
	return c
}

func (r *Resolver) warn(location string, err error) {
	if err == nil {
		return
	}
	id := location + "\x00" + err.Error()
	r.mu.Lock()
	seen := r.warned[id]
	r.warned[id] = true
	r.mu.Unlock()
	if !seen {
		r.o.Logger.Warn("credentials skipped", "where", location, "reason", err.Error())
	}
}
